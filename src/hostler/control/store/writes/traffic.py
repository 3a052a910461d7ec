"""Whether a write is in progress: long computations in other threads pause while it is.

All threads share one interpreter. A transaction gives it up at every statement and has to get it back each time, so
beside two threads that compute a create took eight times as long. The writer says when works wait or run; COMMIT does
not count, for it waits for the disk. ``books.compute_pauses`` says how long a computation stands back at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock

__all__ = ["Traffic"]


class Traffic:
    """Counts running works. From any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._waits_for_disk = False
        self._idle = Event()
        self._idle.set()

    @property
    def is_busy(self) -> bool:
        """Say whether a work runs that needs the interpreter."""
        return not self._idle.is_set()

    def begin(self) -> None:
        """Count a new work."""
        with self._lock:
            self._count += 1
            self._settle()

    def end(self, count: int) -> None:
        """Count finished works."""
        with self._lock:
            self._count -= count
            self._settle()

    @contextmanager
    def waiting_for_disk(self) -> Iterator[None]:
        """Let others compute in this block, even if works are queued."""
        self._set_waiting(is_waiting=True)
        try:
            yield
        finally:
            self._set_waiting(is_waiting=False)

    def wait_until_idle(self, timeout_s: float) -> None:
        """Wait until no work needs the interpreter, or for so long."""
        self._idle.wait(timeout_s)

    def _set_waiting(self, *, is_waiting: bool) -> None:
        with self._lock:
            self._waits_for_disk = is_waiting
            self._settle()

    def _settle(self) -> None:
        if self._count and not self._waits_for_disk:
            self._idle.clear()
        else:
            self._idle.set()
