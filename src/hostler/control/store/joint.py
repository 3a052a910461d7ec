"""Joint works: one function for many items at once, since most of what a small work costs are its statements.

Its outcomes stand in the order of its items; one that is an error refuses its item alone and must have written nothing.
An item may be a joint work's only one, so nothing may depend on the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from hostler.control.store.errors import own_copy
from hostler.errors import HostlerError, InternalError

__all__ = ["Gatherer", "JointWork", "alone", "joined"]

T = TypeVar("T")
Item = TypeVar("Item")
JointWork = Callable[[Connection, Sequence[Item]], Sequence[T | HostlerError]]
_Asked = tuple[Any, asyncio.Future[Any]]


def joined(work: JointWork[Item, T], items: Sequence[Item]) -> Callable[[Connection], Sequence[T | HostlerError]]:
    """Return a joint work as one over a connection, which returns one outcome for each item."""

    def run(connection: Connection) -> Sequence[T | HostlerError]:
        outcomes = work(connection, items)
        if len(outcomes) != len(items):
            raise InternalError(f"{len(outcomes)} outcomes of {len(items)} items", hint="please report it")
        return outcomes

    return run


def alone(work: JointWork[Item, T], item: Item) -> Callable[[Connection], T]:
    """Return a joint work as one of a single item, which raises its refusal."""
    of_one = joined(work, [item])

    def run(connection: Connection) -> T:
        outcome = of_one(connection)[0]
        if isinstance(outcome, HostlerError):
            raise outcome
        return outcome

    return run


class Gatherer:
    """Lets questions that come while another of their kind is answered wait, and answers them together.

    ``run`` carries a work out; for one event loop.
    """

    def __init__(self, run: Callable[[Callable[[Connection], Any]], Awaitable[Any]]) -> None:
        self._run = run
        self._waiting: dict[object, list[_Asked]] = {}
        self._answering: dict[object, asyncio.Task[None]] = {}

    async def ask(self, work: JointWork[Item, T], item: Item) -> T:
        """Return the outcome of an item, or raise its refusal."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(work, []).append((item, answer))
        if work not in self._answering:
            self._answering[work] = asyncio.get_running_loop().create_task(self._answer(work))
        return await answer

    async def _answer(self, work: JointWork[Any, Any]) -> None:
        try:
            while asked := [one for one in self._waiting.pop(work, []) if not one[1].done()]:
                try:
                    outcomes = await self._run(joined(work, [item for item, _ in asked]))
                except Exception as error:
                    outcomes = [own_copy(error) for _ in asked]
                for (_, answer), outcome in zip(asked, outcomes, strict=True):
                    _settle(answer, outcome)
        finally:
            del self._answering[work]


def _settle(answer: asyncio.Future[Any], outcome: object) -> None:
    if answer.done():  # whoever asked has gone
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
