"""A relay to PostgreSQL that cuts a connection when COMMIT comes by.

``before``: the server never sees the COMMIT. ``after``: it carries it out, and the answer is lost.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Literal

__all__ = ["ConnectionRelay"]

_COMMIT = b"COMMIT\x00"


class ConnectionRelay:
    """Listens on loopback and passes everything on, until ``cut_next`` was called and a COMMIT comes by."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._cut: Literal["", "before", "after"] = ""
        self._spared = 0
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut_next(self, when: Literal["before", "after"], *, spared: int = 0) -> None:
        """Cut the connection that sends the next COMMIT, after so many that pass."""
        self._spared = spared
        self._cut = when

    def close(self) -> None:
        """End all connections and threads."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._threads[0].join()
        for one in self._sockets:
            _end(one)
        for thread in self._threads[1:]:
            thread.join()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server))
            self._sockets += [client, server]
            for target, ends in ((self._from_client, (client, server)), (self._from_server, (server, client))):
                thread = threading.Thread(target=target, args=ends)
                self._threads.append(thread)
                thread.start()

    def _from_client(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self._cut and _COMMIT in data and self._spared:
                    self._spared -= 1
                elif self._cut and _COMMIT in data:
                    when, self._cut = self._cut, ""
                    if when == "after":
                        _end(client)
                        server.sendall(data)
                        server.shutdown(socket.SHUT_WR)  # the server reads what it has, then the end
                        return
                    break
                server.sendall(data)
        _end(client)
        _end(server)

    def _from_server(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
        _end(client)
        _end(server)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
