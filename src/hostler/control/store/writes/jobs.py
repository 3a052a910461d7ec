"""Works that wait for the writer, joint works among them, and how callers get the outcome.

A joint work is one function for many items, because a small work costs mostly its statements. Its outcomes are in the
order of its items. An outcome that is an error fails its own item, which must have written nothing. An item may be the
only one, so it must not depend on others.

The caller is a thread, which waits, or a task of an event loop. A loop is woken once for all its works of a
transaction, because waking it for each costs more than most works do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import Connection

from hostler.control.store.errors import own_copy
from hostler.errors import HostlerError, InternalError

__all__ = ["JointReads", "JointWork", "WriteJob", "bind_item", "bind_items", "run_all", "settle"]

T = TypeVar("T")
Item = TypeVar("Item")
JointWork = Callable[[Connection, Sequence[Item]], Sequence[T | HostlerError]]
_Asked = tuple[Any, asyncio.Future[Any]]


def bind_items(work: JointWork[Item, T], items: Sequence[Item]) -> Callable[[Connection], Sequence[T | HostlerError]]:
    """Return a joint work and its items as a function of a connection; it returns one outcome for each item."""

    def run(connection: Connection) -> Sequence[T | HostlerError]:
        outcomes = work(connection, items)
        if len(outcomes) != len(items):
            raise InternalError(f"{len(outcomes)} outcomes of {len(items)} items", hint="please report it")
        return outcomes

    return run


def bind_item(work: JointWork[Item, T], item: Item) -> Callable[[Connection], T]:
    """Return a joint work and a single item as a function of a connection; it raises the item's error."""
    of_one = bind_items(work, [item])

    def run(connection: Connection) -> T:
        outcome = of_one(connection)[0]
        if isinstance(outcome, HostlerError):
            raise outcome
        return outcome

    return run


class JointReads:
    """Gathers items that arrive while the same joint work runs, and then reads them together.

    ``run`` carries out a work; for one event loop.
    """

    def __init__(self, run: Callable[[Callable[[Connection], Any]], Awaitable[Any]]) -> None:
        self._run = run
        self._waiting: dict[object, list[_Asked]] = {}
        self._answering: dict[object, asyncio.Task[None]] = {}

    async def ask(self, work: JointWork[Item, T], item: Item) -> T:
        """Return the outcome of an item, or raise its error."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(work, []).append((item, answer))
        if work not in self._answering:
            self._answering[work] = asyncio.get_running_loop().create_task(self._answer(work))
        return await answer

    async def _answer(self, work: JointWork[Any, Any]) -> None:
        try:
            while asked := [one for one in self._waiting.pop(work, []) if not one[1].done()]:
                try:
                    outcomes = await self._run(bind_items(work, [item for item, _ in asked]))
                except Exception as error:
                    outcomes = [own_copy(error) for _ in asked]
                for (_, answer), outcome in zip(asked, outcomes, strict=True):
                    _settle(answer, outcome)
        finally:
            del self._answering[work]


def _settle(answer: asyncio.Future[Any], outcome: object) -> None:
    if answer.done():  # the caller has gone
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


class WriteJob:
    """A work, its result before COMMIT, and the future of its caller."""

    __slots__ = ("error", "future", "item", "joint", "result", "work")

    def __init__(
        self,
        work: Callable[[Connection], Any],
        future: Future[Any] | asyncio.Future[Any],
        joint: JointWork[Any, Any] | None = None,
        item: object = None,
    ) -> None:
        self.work = work
        self.joint = joint  # the same for many items; ``work`` is then that of this item alone
        self.item = item
        self.future = future
        self.result: object = None
        self.error: BaseException | None = None

    def begin(self) -> bool:
        """Say whether the caller still waits; a later cancel gets no answer, and the work is done."""
        if isinstance(self.future, Future):
            return self.future.set_running_or_notify_cancel()
        return not self.future.cancelled()


def run_all(connection: Connection, jobs: Sequence[WriteJob]) -> None:
    """Run works in order; a joint work runs at the place of its first item, for all of its items."""
    shares: dict[object, list[WriteJob]] = {}
    for job in jobs:
        shares.setdefault(job if job.joint is None else job.joint, []).append(job)
    for share in shares.values():
        joint = share[0].joint
        if joint is None:
            share[0].result = share[0].work(connection)
            continue
        outcomes = bind_items(joint, [job.item for job in share])(connection)
        for job, outcome in zip(share, outcomes, strict=True):
            if isinstance(outcome, HostlerError):
                job.error = outcome
            else:
                job.result = outcome


def settle(jobs: Iterable[WriteJob]) -> None:
    """Resolve the futures of works."""
    by_loop: dict[asyncio.AbstractEventLoop, list[WriteJob]] = {}
    for job in jobs:
        if isinstance(job.future, Future):
            _resolve(job)
        else:
            by_loop.setdefault(job.future.get_loop(), []).append(job)
    for loop, its in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: no caller waits any more
            loop.call_soon_threadsafe(_resolve_all, its)


def _resolve_all(jobs: Iterable[WriteJob]) -> None:
    for job in jobs:
        if not job.future.done():
            _resolve(job)


def _resolve(job: WriteJob) -> None:
    if job.error is not None:
        job.future.set_exception(job.error)
    else:
        job.future.set_result(job.result)
