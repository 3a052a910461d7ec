"""Answers questions about the engine (what-ifs and explanations) while decisions continue.

A question runs on a twin of the engine that has all log entries that this replica has read. A what-if may take seconds,
so explanations have a thread of their own. The interface is ``Answerer``. ``ThreadAnswerer`` uses threads of this
process. ``process.ProcessAnswerer`` uses a process that follows the log, so computing does not slow down requests. Both
give the same answers.

Invariant: a question changes nothing but its twin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from hostler.control.books.follower import FollowerState
from hostler.control.store.history.log import StoredEntry
from hostler.engine import Engine
from hostler.errors import HostlerError, UnavailableError
from hostler.runtime.engine_thread import EngineThread

__all__ = [
    "MAX_WAITING_WHAT_IFS", "Answerer", "EngineSource", "Question", "QuestionQueue", "ThreadAnswerer",
    "check_waiting", "service_thread",
]  # fmt: skip

T = TypeVar("T")
Twin = TypeVar("Twin")
Question = Callable[[Engine, int], T]
"""Gets a twin of the engine and the number of the last log entry that it knows. For a process it can be pickled."""

MAX_WAITING_WHAT_IFS = 8  # each may take seconds


class EngineSource(Protocol):
    """The engine of this replica."""

    async def twin(self) -> tuple[Engine, int]:
        """Return a twin of the engine with all facts that were read, and the number of the last entry."""

    async def follower_state(self) -> FollowerState:
        """Return the complete state of the follower; later entries are passed to ``Answerer.read``."""

    def now_ns(self) -> int:
        """Return the time at which waiting facts count as known."""


class Answerer(Protocol):
    """Answers questions. All methods are called in the event loop."""

    def attach(self, source: EngineSource) -> None:
        """Set the source of the engine; called once, before everything else."""

    def read(self, entries: Sequence[StoredEntry]) -> None:
        """Take note of entries that the source has read."""

    def forget(self) -> None:
        """Discard what is known: the source begins again at another place of the log."""

    async def explain(self, question: Question[T]) -> T:
        """Answer a question that takes milliseconds; UnavailableError when the service stops."""

    async def what_if(self, question: Question[T]) -> T:
        """Answer a question that may take seconds; UnavailableError also if too many wait already."""

    async def close(self) -> None:
        """Stop; waiting questions get UnavailableError."""


def check_waiting(count: int) -> None:
    """Reject a what-if if this many others wait; UnavailableError."""
    if count >= MAX_WAITING_WHAT_IFS:
        raise UnavailableError(f"{count} questions wait already", hint="ask again in a moment")


def service_thread(name: str) -> EngineThread:
    """Start a thread for works on an engine or its twins; later works get UnavailableError."""
    return EngineThread(name, late_work=_stopping, last_work_s=None)


def _stopping() -> HostlerError:
    return UnavailableError("the service is stopping", hint="ask again when it has started")


class QuestionQueue:
    """Runs questions one after the other, each on a twin that is made at its turn. So there is one twin at a time.

    ``check`` gets the number of waiting questions and may raise, so that slow questions are rejected at once and not
    late.
    """

    def __init__(self, thread: EngineThread, *, check: Callable[[int], None] = lambda waiting: None) -> None:
        self._thread = thread
        self._turn = asyncio.Lock()
        self._check = check
        self._waiting = 0

    async def ask(self, make_twin: Callable[[], Awaitable[Twin]], work: Callable[[Twin], T]) -> T:
        """Make a twin and run the question on it in the thread of this queue; raises what ``check`` raises."""
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
        """End the thread after the current question."""
        await asyncio.to_thread(self._thread.close)


class ThreadAnswerer:
    """Answers in two threads of this process: for tests, and if memory is short."""

    def __init__(self) -> None:
        self._explanations = QuestionQueue(service_thread("hostler-explain"))
        self._what_ifs = QuestionQueue(service_thread("hostler-what-if"), check=check_waiting)
        self._source: EngineSource | None = None

    def attach(self, source: EngineSource) -> None:
        """Set the source of the engine."""
        self._source = source

    def read(self, entries: Sequence[StoredEntry]) -> None:
        """Do nothing: twins are copies of the engine itself."""

    def forget(self) -> None:
        """Do nothing: twins are copies of the engine itself."""

    async def explain(self, question: Question[T]) -> T:
        """Answer a question that takes milliseconds."""
        return await self._ask(self._explanations, question)

    async def what_if(self, question: Question[T]) -> T:
        """Answer a question that may take seconds."""
        return await self._ask(self._what_ifs, question)

    async def _ask(self, line: QuestionQueue, question: Question[T]) -> T:
        assert self._source is not None, "attach comes first"
        return await line.ask(self._source.twin, lambda twin: question(*twin))

    async def close(self) -> None:
        """End the threads, each after its current question."""
        for line in (self._what_ifs, self._explanations):
            await line.close()
