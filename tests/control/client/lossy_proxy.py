"""Something between client and server that loses answers: requests arrive, and what comes back does not."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit


class LossyProxy:
    """Passes connections on; of the first ``losses`` requests the answers are swallowed."""

    def __init__(self, server: str, losses: int) -> None:
        address = urlsplit(server)
        self._server = (address.hostname, address.port)
        self._losses = losses
        self.lost: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            with here, socket.create_connection(self._server) as there:
                self._pass_on(here, there)

    def _pass_on(self, here: socket.socket, there: socket.socket) -> None:
        """Serve one connection, request by request: small ones, that arrive in one piece or two."""
        while request := _read_message(here):
            there.sendall(request)
            answer = _read_message(there)
            if self._losses:
                self._losses -= 1
                self.lost.append(answer)
                return
            here.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _read_message(stream: socket.socket) -> bytes:
    """Read a request or an answer with a Content-Length, or without a body."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = stream.recv(65536)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    missing = int(sizes[0]) - len(body) if sizes else 0
    while missing > 0:
        piece = stream.recv(missing)
        if not piece:
            break
        data += piece
        missing -= len(piece)
    return data


@contextmanager
def lossy_proxy(server: str, losses: int = 1):
    between = LossyProxy(server, losses)
    try:
        yield between
    finally:
        between.close()
