"""Wakes those who wait for the log to grow: the leader, replicas that follow, long polls.

A notice may be spurious, and may be lost with a connection, so each waiter also checks after its timeout. No notice is
lost in between if the count from before the check is passed on::

    seen = notifier.count
    while True:
        ...  # read the log
        seen = await notifier.wait(1.0, since=seen)
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

__all__ = ["Notifier"]


class Notifier:
    """Counts notices and wakes the tasks that wait for the next; ``poke`` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def count(self) -> int:
        """Return how many notices there were."""
        return self._count

    def poke(self) -> None:
        """Wake all waiting tasks."""
        with self._lock:
            self._count += 1
            woken, self._waiting = self._waiting, set()
        for future in woken:
            with suppress(RuntimeError):  # its loop has ended
                future.get_loop().call_soon_threadsafe(_finish, future)

    async def wait(self, timeout_s: float, *, since: int | None = None) -> int:
        """Return the count once it exceeds ``since`` (default: the count now), or after the timeout."""
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if since is not None and self._count > since:
                return self._count
            self._waiting.add(future)
        try:
            await asyncio.wait((future,), timeout=timeout_s)
        finally:
            with self._lock:
                self._waiting.discard(future)
        return self._count


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
