"""Answers that a decision waits for: scores of extenders, and prepared volumes.

Every request gets exactly one answer, which may be an error; an abandoned request gets none. An error also goes to
``on_failed``, for the owner of the pod: no host rejected the pod, so no decision reports it. Used by ``loop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from hostler.errors import HostlerError, UnavailableError
from hostler.model import Abandon, Answered, Ask, Event, Prepare, Prepared

__all__ = ["Answerer", "ExternalAnswers", "Preparer"]

_MOST_ASKED = 32  # answers that are awaited at once: a gang asks about all of its members in one step

Answerer: TypeAlias = Callable[[Ask], Awaitable[Answered]]
Preparer: TypeAlias = Callable[[Prepare], Awaitable[Prepared]]


class ExternalAnswers:
    """Calls extenders and prepares volumes, each in a task of its own."""

    def __init__(
        self,
        tell: Callable[[Event], None],
        *,
        answer: Answerer | None = None,
        prepare: Preparer | None = None,
        on_failed: Callable[[str, str], None] = lambda uid, why: None,
        on_task_end: Callable[[asyncio.Task[None]], None] = lambda task: None,
    ) -> None:
        self._tell = tell
        self._answer = answer
        self._prepare = prepare
        self._on_failed = on_failed
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._on_task_end = on_task_end
        self._room = asyncio.Semaphore(_MOST_ASKED)

    @property
    def backlog(self) -> int:
        """Return the number of outstanding answers."""
        return len(self._tasks)

    def ask(self, ask: Ask) -> None:
        """Call the extenders and send the answer as a fact."""
        self._start(("ask", ask.uid), self._ask(ask))

    def prepare(self, prepare: Prepare) -> None:
        """Prepare the volumes and send the outcome as a fact."""
        self._start(("prepare", prepare.uid), self._get_ready(prepare))

    def abandon(self, abandon: Abandon) -> None:
        """Stop preparing for a guest."""
        task = self._tasks.get(("prepare", abandon.uid))
        if task is not None:
            task.cancel()

    def forget(self, uid: str) -> None:
        """Stop all requests for a guest that is gone: the answer is not needed any more."""
        for what in ("ask", "prepare"):
            task = self._tasks.get((what, uid))
            if task is not None:
                task.cancel()

    async def abort(self) -> None:
        """Drop everything at once."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, key: tuple[str, str], work: Coroutine[Any, Any, None]) -> None:
        old = self._tasks.get(key)
        if old is not None:
            old.cancel()
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._tasks.pop(key) if self._tasks.get(key) is done else None)
        task.add_done_callback(self._on_task_end)

    async def _ask(self, ask: Ask) -> None:
        try:
            if self._answer is None:
                raise UnavailableError(f"no extender is configured for {ask.asked}")
            async with self._room:
                answered = await self._answer(ask)
        except Exception as error:  # this may be third-party code: its failure delays one guest
            answered = Answered(uid=ask.uid, ask=ask.ask, error=_text_of(error))
        self._give(answered)

    async def _get_ready(self, prepare: Prepare) -> None:
        try:
            if self._prepare is None:
                raise UnavailableError(f"there is no preparer of {', '.join(prepare.needs)}")
            prepared = await self._prepare(prepare)
        except Exception as error:
            prepared = Prepared(uid=prepare.uid, host=prepare.host, error=_text_of(error))
        self._give(prepared)

    def _give(self, outcome: Answered | Prepared) -> None:
        if outcome.error:
            self._on_failed(outcome.uid, outcome.error)
        self._tell(outcome)


def _text_of(error: Exception) -> str:
    return error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
