"""Works that wait for their turn, and how those who asked for them learn what came of it.

Whoever asks is a thread, which waits, or a task of an event loop. A loop is woken once for all its works of a
transaction: waking it for each costs more than most works do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from hostler.control.store.joint import JointWork, joined
from hostler.errors import HostlerError

__all__ = ["Job", "run_all", "settle"]


class Job:
    """A work, what came of it before COMMIT, and the promise to whoever asked for it."""

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
        """Say whether anybody still wants it; who changes his mind after this gets no answer, and it is done."""
        if isinstance(self.future, Future):
            return self.future.set_running_or_notify_cancel()
        return not self.future.cancelled()


def run_all(connection: Connection, jobs: Sequence[Job]) -> None:
    """Run works in their order; a joint one runs where its first item stands, for all of its items."""
    shares: dict[object, list[Job]] = {}
    for job in jobs:
        shares.setdefault(job if job.joint is None else job.joint, []).append(job)
    for share in shares.values():
        joint = share[0].joint
        if joint is None:
            share[0].result = share[0].work(connection)
            continue
        outcomes = joined(joint, [job.item for job in share])(connection)
        for job, outcome in zip(share, outcomes, strict=True):
            if isinstance(outcome, HostlerError):
                job.error = outcome
            else:
                job.result = outcome


def settle(jobs: Iterable[Job]) -> None:
    """Tell everybody who waits what came of his work."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if isinstance(job.future, Future):
            _resolve(job)
        else:
            by_loop.setdefault(job.future.get_loop(), []).append(job)
    for loop, its in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve_all, its)


def _resolve_all(jobs: Iterable[Job]) -> None:
    for job in jobs:
        if not job.future.done():
            _resolve(job)


def _resolve(job: Job) -> None:
    if job.error is not None:
        job.future.set_exception(job.error)
    else:
        job.future.set_result(job.result)
