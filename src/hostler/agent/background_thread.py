"""A thread for blocking work that may hang: a disk that does not answer, a process that cannot be looked at.

Each kind of work has a thread of its own, and does one piece at a time. Work that hangs is left behind and keeps only
its own kind from going on: with threads of a common pool, a few hanging looks would keep a watchdog from reading its
lease, and it would stop VMs of a healthy host. The threads do not outlive their process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["BackgroundThread"]

T = TypeVar("T")


class BackgroundThread:
    """Does one kind of blocking work; ``what`` names it in errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_busy = threading.Event()

    async def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work; TimeoutError at once while an earlier piece hangs."""
        if self._is_busy.is_set():
            raise TimeoutError(f"{self._what} hangs")
        self._is_busy.set()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def hand_over(result: T | None, error: BaseException | None) -> None:
            if done.done():  # the caller gave up
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]  # the result of work

        def work_and_hand_over() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # whatever it is, it belongs to the caller
                error = raised
            self._is_busy.clear()
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(hand_over, result, error)

        # Not of a pool: at its end a process waits for those, however long they hang.
        threading.Thread(target=work_and_hand_over, name=self._what, daemon=True).start()
        return await done
