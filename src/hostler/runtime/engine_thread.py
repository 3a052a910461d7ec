"""Where an engine runs: on a thread of its own in a live front, inline in a simulation.

One thread at a time may touch an engine, and a long step must not delay lease renewals, probes or requests. So a front
hands the engine work and waits for it; ``longest_stall_s`` is the longest wait. Agents do not import
this module.

Invariant: work is done in the order in which it came, and never two pieces at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from hostler.errors import HostlerError, InternalError
from hostler.runtime.stalls import Stalls

__all__ = ["EngineThread", "Executor", "InlineExecutor"]

T = TypeVar("T")

_LAST_WORK_S = 1.0  # for the work at hand when there shall be no more


class Executor(Protocol):
    """Runs work that must not run at the same time as other work."""

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work and return its result."""
        ...

    def longest_stall_s(self) -> float:
        """Return the longest wait for work and its turn in the last minute."""
        ...

    def close(self) -> None:
        """Take no more work."""
        ...


class InlineExecutor:
    """Does the work at once, between two awaits."""

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work and return its result."""
        return work()

    def longest_stall_s(self) -> float:
        """Return 0: no virtual time passes while work is done."""
        return 0.0

    def close(self) -> None:
        """There is nothing to end."""


def _late_work() -> HostlerError:
    return InternalError("the engine's thread has ended and takes no more work")


class EngineThread:
    """Does work in one thread, which belongs to no pool.

    A process waits for threads of pools when it ends, and a plugin that hangs would keep it for ever.
    ``late_work`` makes the error for work that comes after the end. ``last_work_s``: how long ``close`` waits for the
    work at hand, None for as long as it takes; what takes longer ends with the process.
    """

    def __init__(
        self,
        name: str = "hostler-engine",
        *,
        late_work: Callable[[], HostlerError] = _late_work,
        last_work_s: float | None = _LAST_WORK_S,
    ) -> None:
        self._late_work = late_work
        self._last_work_s = last_work_s
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._is_closed = False
        self._stalls = Stalls()
        self._thread = Thread(target=self._do_work, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work in the thread and return its result."""
        self.check_open()
        future: Future[T] = Future()
        self._waiting.put((future, work))
        with self._stalls.timing():
            return await asyncio.wrap_future(future)

    def check_open(self) -> None:
        """Raise the error for late work if the thread has ended."""
        if self._is_closed:
            raise self._late_work()

    def longest_stall_s(self) -> float:
        """Return the longest wait for work and its turn in the last minute, including what waits now."""
        return self._stalls.longest_s()

    def close(self) -> None:
        """End the thread after the current work; waiting work is canceled."""
        self._is_closed = True
        with suppress(Empty):
            while (one := self._waiting.get_nowait()) is not None:
                one[0].cancel()
        self._waiting.put(None)
        self._thread.join(self._last_work_s)

    def _do_work(self) -> None:
        while (one := self._waiting.get()) is not None:
            future, work = one
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del one, future, work  # nothing is kept alive until there is more to do
