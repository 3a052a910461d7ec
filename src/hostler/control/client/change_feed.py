"""Notices that something changed, from a stream that a thread reads. Many changes at once cause one refresh.

If the stream fails, it is opened again; meanwhile ``wait`` returns now and then for a poll.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

import httpx

from hostler.control.client.responses import read_lines, read_messages
from hostler.control.client.server_target import ServerTarget
from hostler.control.client.wire import Wire
from hostler.errors import HostlerError

__all__ = ["ChangeFeed"]

_POLL_S = 1.0  # between looks without a stream
_LOOK_S = 15.0  # between looks with one, for what it might have lost
_END_S = 2.0  # how long the end waits for the thread
_HEADERS = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


class ChangeFeed:
    """Waits for changes at one control plane, in a ``with`` block."""

    def __init__(self, target: ServerTarget, *, poll_s: float = _POLL_S, look_s: float = _LOOK_S) -> None:
        self._poll_s = poll_s
        self._look_s = look_s
        self._wire = Wire(target)
        self._changed = threading.Event()
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._answer: httpx.Response | None = None
        self._thread = threading.Thread(target=self._listen, name="news", daemon=True)
        self.is_live = False  # a stream is there

    def __enter__(self) -> ChangeFeed:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        with self._lock:
            if self._answer is not None:
                _hang_up(self._answer)
        self._thread.join(_END_S)
        if not self._thread.is_alive():  # else it waits for a server that does not answer, and ends with the process
            self._wire.close()

    def wait(self) -> None:
        """Return when it is time to refresh."""
        self._changed.wait(self._look_s if self.is_live else self._poll_s)
        self._changed.clear()

    def _listen(self) -> None:
        failures = 0
        while not self._ending.is_set():
            try:
                self._read()
                failures = 0
            except (httpx.TransportError, HostlerError):  # the next poll fails too, and reports it
                failures = 0 if self.is_live else failures + 1
            self.is_live = False
            self._changed.set()  # who waits for the stream must look for himself from now on
            self._ending.wait(min(self._poll_s * 2**failures, self._look_s))

    def _read(self) -> None:
        with self._wire.stream("/v1/events", {"news": "true"}, _HEADERS) as answer:
            with self._lock:
                if self._ending.is_set():
                    return
                self._answer = answer
            try:
                for _ in read_messages(read_lines(answer)):
                    self.is_live = True
                    self._changed.set()
            finally:
                with self._lock:
                    self._answer = None


def _hang_up(answer: httpx.Response) -> None:
    """Shut down a connection that another thread reads: closing it would not wake the thread."""
    with suppress(OSError):
        answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
