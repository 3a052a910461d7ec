"""One thread that owns the engine, and lines for questions: neither event loop nor decisions wait for an answer.

A question is asked of a twin. Making one takes the engine's thread a moment; all that is done with it is done beside
it, since a twin shares nothing that changes with its engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hostler.control.books.pacing import Pace
from hostler.control.books.stalls import Stalls
from hostler.errors import UnavailableError

__all__ = ["AskingLine", "EngineThread"]

T = TypeVar("T")
Twin = TypeVar("Twin")


class EngineThread:
    """Runs works in the order in which they come."""

    def __init__(self, name: str = "hostler-engine") -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._is_closed = False
        self.stalls = Stalls()  # how long works took, waiting for their turn included

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work in the thread and return its result."""
        self.check_open()
        with self.stalls.timing():
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def check_open(self) -> None:
        """Refuse whoever comes after the end; UnavailableError."""
        if self._is_closed:
            raise UnavailableError("the service is stopping", hint="ask again when it has started")

    def close(self) -> None:
        """End the thread after the work at hand."""
        self._is_closed = True
        self._pool.shutdown(cancel_futures=True)


class AskingLine:
    """Works on twins, one after the other; a twin is made when it is its work's turn, so there is one at a time.

    With ``most`` no more than that many wait: what takes long is refused at once rather than late.
    """

    def __init__(self, engine: EngineThread, name: str, pace: Pace, *, most: int | None = None) -> None:
        self._engine = engine
        self._pace = pace
        self._thread = EngineThread(name)
        self._turn = asyncio.Lock()
        self._most = most
        self._waiting = 0

    async def ask(self, fork: Callable[[], Twin], work: Callable[[Twin], T]) -> T:
        """Make a twin in the engine's thread, do the work beside it; UnavailableError when too many wait."""
        if self._turn.locked() and self._most is not None and self._waiting >= self._most:
            raise UnavailableError(f"{self._waiting} questions wait already", hint="ask again in a moment")
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            self._thread.check_open()
            twin = await self._engine.run(fork)
            return await self._thread.run(lambda: self._paced(work, twin))
        finally:
            self._turn.release()

    def _paced(self, work: Callable[[Twin], T], twin: Twin) -> T:
        with self._pace:
            return work(twin)

    def close(self) -> None:
        """End the thread after the work at hand."""
        self._thread.close()
