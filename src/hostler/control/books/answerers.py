"""Who answers questions about the engine: what-ifs and explanations, while decisions go on beside them.

A question is asked of a twin of the engine that knows every entry of the log that this replica has read. What-ifs may
take seconds, so an explanation never waits for one. Behind the interface ``Answerer`` stand threads of this process
(``ThreadAnswerer``) and a process of its own (``answer_process.ProcessAnswerer``), which follows the log: computing
then takes nothing from the interpreter that serves requests. Both give the same answers.

Invariant: a question changes nothing but its twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from hostler.control.books.follower import FollowerState
from hostler.control.books.thread import AskingLine, EngineThread
from hostler.control.store.log import Entry
from hostler.engine import Engine
from hostler.errors import UnavailableError

__all__ = ["MAX_WAITING_WHAT_IFS", "Answerer", "EngineSource", "Question", "ThreadAnswerer", "check_waiting"]

T = TypeVar("T")
Question = Callable[[Engine, int], T]
"""Gets a twin of the engine and the number of the last log entry that it knows. For a process it can be pickled."""

MAX_WAITING_WHAT_IFS = 8  # each may take seconds


class EngineSource(Protocol):
    """The engine of this replica."""

    async def twin(self) -> tuple[Engine, int]:
        """Return a twin of the engine with all facts that were read, and the number of the last entry."""

    async def follower_state(self) -> FollowerState:
        """Return all that the follower is; every entry after it is given to ``Answerer.read``."""

    def now_ns(self) -> int:
        """Return the time at which facts that wait for a step count as known."""


class Answerer(Protocol):
    """Answers questions. All methods are called in the event loop."""

    def attach(self, source: EngineSource) -> None:
        """Take the engine to answer by; called once, before everything else."""

    def read(self, entries: Sequence[Entry]) -> None:
        """Take note of entries that the source has read."""

    def forget(self) -> None:
        """Drop what is known: the source begins again, from another place of the log."""

    async def explain(self, question: Question[T]) -> T:
        """Answer a question that takes milliseconds; UnavailableError when the service stops."""

    async def what_if(self, question: Question[T]) -> T:
        """Answer a question that may take seconds; UnavailableError also when too many of those wait."""

    async def close(self) -> None:
        """End what computes; a question that waits gets UnavailableError."""


def check_waiting(count: int) -> None:
    """Reject a what-if when this many others wait; UnavailableError."""
    if count >= MAX_WAITING_WHAT_IFS:
        raise UnavailableError(f"{count} questions wait already", hint="ask again in a moment")


class ThreadAnswerer:
    """Answers in two threads of this process: for tests, and where a second process is not worth its memory."""

    def __init__(self) -> None:
        self._explanations = AskingLine(EngineThread("hostler-explain"))
        self._what_ifs = AskingLine(EngineThread("hostler-what-if"), check=check_waiting)
        self._source: EngineSource | None = None

    def attach(self, source: EngineSource) -> None:
        """Take the engine to answer by."""
        self._source = source

    def read(self, entries: Sequence[Entry]) -> None:
        """Do nothing: twins are made of the engine itself."""

    def forget(self) -> None:
        """Do nothing: twins are made of the engine itself."""

    async def explain(self, question: Question[T]) -> T:
        """Answer a question that takes milliseconds."""
        return await self._ask(self._explanations, question)

    async def what_if(self, question: Question[T]) -> T:
        """Answer a question that may take seconds."""
        return await self._ask(self._what_ifs, question)

    async def _ask(self, line: AskingLine, question: Question[T]) -> T:
        assert self._source is not None, "attach comes first"
        return await line.ask(self._source.twin, lambda twin: question(*twin))

    async def close(self) -> None:
        """End the threads, each after the question at hand."""
        for line in (self._what_ifs, self._explanations):
            await line.close()
