"""Where the engine runs: in a thread of its own on a live cluster, inline in a simulation.

A long step must not starve lease renewals and probes, and one thread at a time may touch the engine. The longest stall
is remembered. Used by ``loop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from hostler.errors import InternalError

__all__ = ["Executor", "Inline", "OwnThread"]

T = TypeVar("T")

_LAST_WORK_S = 1.0  # for the work at hand when there shall be no more


class Executor(Protocol):
    """Runs work that nobody else may do at the same time."""

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work and return its result."""
        ...

    def close(self) -> None:
        """Take no more work."""
        ...


class Inline:
    """Does the work at once, between two awaits."""

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work and return its result."""
        return work()

    def close(self) -> None:
        """There is nothing to end."""


class OwnThread:
    """One thread, so that work is done in the order in which it came.

    It is no thread of a pool, for which a process waits when it ends: a plugin that hangs would keep it for ever.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._is_closed = False
        self._thread = Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work in the thread and wait for its result."""
        if self._is_closed:
            raise InternalError("the engine's thread has ended and takes no more work")
        future: Future[T] = Future()
        self._waiting.put((future, work))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """End the thread after the work at hand; work that does not end soon ends with the process."""
        self._is_closed = True
        with suppress(Empty):
            while (one := self._waiting.get_nowait()) is not None:
                one[0].cancel()
        self._waiting.put(None)
        self._thread.join(_LAST_WORK_S)

    def _work(self) -> None:
        while (one := self._waiting.get()) is not None:
            future, work = one
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del one, future, work  # nothing is kept alive until there is more to do
