"""One thread that owns the engine, and lines for questions: neither event loop nor decisions wait for an answer.

A question is asked of a twin. Making one takes the engine's thread a moment; all that is done with it is done beside
it, since a twin shares nothing that changes with its engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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

    ``check`` gets how many wait already, and may raise: what takes long is rejected at once rather than late.
    """

    def __init__(self, thread: EngineThread, *, check: Callable[[int], None] = lambda waiting: None) -> None:
        self._thread = thread
        self._turn = asyncio.Lock()
        self._check = check
        self._waiting = 0

    async def ask(self, make_twin: Callable[[], Awaitable[Twin]], work: Callable[[Twin], T]) -> T:
        """Make a twin and do the work on it in this line's thread; raises what ``check`` does."""
        if self._turn.locked():
            self._check(self._waiting)
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            self._thread.check_open()
            twin = await make_twin()
            return await self._thread.run(lambda: work(twin))
        finally:
            self._turn.release()

    async def close(self) -> None:
        """End the thread after the work at hand."""
        await asyncio.to_thread(self._thread.close)
