"""The terms of one process: whenever the lease is lost, a fresh scheduler waits for it again.

Nothing of a term is used in the next, so that a term begins as a process does: what the old one sent last has timed out
before the new one reads, and it reads after its own lease write. That needs an identity of its own for each term: a
lease that is ours by name is taken without waiting for anybody. Used by ``main``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from hostler.kube.scheduler.changes import Changes
from hostler.kube.scheduler.executor import Executor
from hostler.kube.scheduler.process import Ending, Scheduler
from hostler.kube.scheduler.tasks import before
from hostler.kube.settings import SchedulerSettings

__all__ = ["Make", "Serve", "Terms"]

Make: TypeAlias = Callable[[SchedulerSettings, str], Scheduler]  # by an identity
Serve: TypeAlias = Callable[[Scheduler, asyncio.Event], Awaitable[Ending]]


async def _run(scheduler: Scheduler, stop: asyncio.Event) -> Ending:
    return await scheduler.run(stop)


class Terms:
    """One scheduler after the other; ``current`` is the one at hand. ``serve`` is how a term passes."""

    def __init__(
        self, make: Make, settings: SchedulerSettings, executor: Executor, *, identity: str, serve: Serve = _run
    ) -> None:
        self.lost = 0
        self._make = make
        self._executor = executor
        self._identity = identity
        self._serve = serve
        self.current = make(settings, identity)

    async def adopt(self, settings: SchedulerSettings) -> Changes:
        """Go on by other settings, in whatever term that is by then; return what was taken over, and what was not."""
        while True:
            term = self.current
            changes = await term.adopt(settings)
            if term is self.current:
                return changes

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule, and wait for the lease again whenever it is lost, until told to stop."""
        while await self._serve(self.current, stop) == "lost":
            self.lost += 1
            self.current.meters.lease_losses.inc()
            # A step that the old engine is at cannot be cut short, and what it writes belongs to the old journal.
            if not await self._has_rested(stop):
                return
            # What was taken over from a file that was read again stays.
            self.current = self._make(self.current.settings, f"{self._identity}-{self.lost + 1}")

    async def _has_rested(self, stop: asyncio.Event) -> bool:
        """Wait for all work that was begun, but not longer than until told to stop; say whether it is done."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            return await before(stopping, self._executor.run(_nothing))
        finally:
            stopping.cancel()


def _nothing() -> None:
    """Do nothing, after everything that waits for the executor."""
