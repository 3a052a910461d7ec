"""Answers that a decision waits for: extenders that are asked, volumes that are prepared.

Every question gets exactly one answer, an error included; one that is abandoned gets none. What went wrong is also told
to ``on_failed``, for the guest's owner: no host refused it, so no decision will say it. Used by ``loop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from hostler.errors import HostlerError, UnavailableError
from hostler.model import Abandon, Answered, Ask, Event, Prepare, Prepared

__all__ = ["Answerer", "Outside", "Preparer"]

Answerer: TypeAlias = Callable[[Ask], Awaitable[Answered]]
Preparer: TypeAlias = Callable[[Prepare], Awaitable[Prepared]]


class Outside:
    """Asks and prepares, each in a task of its own."""

    def __init__(
        self,
        tell: Callable[[Event], None],
        *,
        answer: Answerer | None = None,
        prepare: Preparer | None = None,
        on_failed: Callable[[str, str], None] = lambda uid, why: None,
    ) -> None:
        self._tell = tell
        self._answer = answer
        self._prepare = prepare
        self._on_failed = on_failed
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.watch: Callable[[asyncio.Task[None]], None] = lambda task: None  # told when one of our tasks ends

    @property
    def backlog(self) -> int:
        """Return how many answers are awaited."""
        return len(self._tasks)

    def ask(self, ask: Ask) -> None:
        """Ask, and tell the answer."""
        self._start(("ask", ask.uid), self._ask(ask))

    def prepare(self, prepare: Prepare) -> None:
        """Prepare, and tell how that went."""
        self._start(("prepare", prepare.uid), self._get_ready(prepare))

    def abandon(self, abandon: Abandon) -> None:
        """Stop preparing for a guest."""
        task = self._tasks.get(("prepare", abandon.uid))
        if task is not None:
            task.cancel()

    def forget(self, uid: str) -> None:
        """Stop asking and preparing for a guest that is gone: nobody waits for the answer."""
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
        task.add_done_callback(self.watch)

    async def _ask(self, ask: Ask) -> None:
        try:
            if self._answer is None:
                raise UnavailableError(f"nobody here can ask {ask.asked}")
            answered = await self._answer(ask)
        except Exception as error:  # whoever answers may be anybody's code: his mistake delays one guest
            answered = Answered(uid=ask.uid, ask=ask.ask, error=_text_of(error))
        self._give(answered)

    async def _get_ready(self, prepare: Prepare) -> None:
        try:
            if self._prepare is None:
                raise UnavailableError(f"nobody here can prepare {', '.join(prepare.needs)}")
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
