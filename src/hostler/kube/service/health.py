"""Whether a scheduler is alive and whether it is ready, with the reason if it is not.

A busy scheduler is healthy, a stuck one is not. The engine's thread gets an empty task now and then, and facts that
wait while no turn ends are noticed. Both may take half a minute; more is a failure. Used by ``server``.
"""

from __future__ import annotations

import asyncio

from hostler.kube.scheduler.process import Scheduler
from hostler.runtime.clock import NANOSECONDS, Clock
from hostler.runtime.engine_thread import Executor

__all__ = ["PATIENCE_S", "HealthMonitor"]

PATIENCE_S = 30.0
STALE_S = 100.0
_EVERY_S = 5.0


class HealthMonitor:
    """Watches one scheduler."""

    def __init__(self, scheduler: Scheduler, executor: Executor, clock: Clock) -> None:
        self._scheduler = scheduler
        self._executor = executor
        self._clock = clock
        self._pinged_at: int | None = None  # an empty task that the engine's thread has not done yet
        self._waiting_since: int | None = None
        self._turn_seen = 0

    async def watch(self) -> None:
        """Check now and then, forever; cancel it to end."""
        while True:
            self._look_at_inbox()
            self._pinged_at = self._clock.now()
            await self._executor.run(_do_nothing)
            self._pinged_at = None
            await asyncio.sleep(_EVERY_S)

    def why_dead(self) -> str:
        """Return why the process should be restarted, or an empty string."""
        self._look_at_inbox()
        busy_s = self._since(self._pinged_at)
        if busy_s > PATIENCE_S:
            return f"the engine has not responded for {busy_s:.0f} s"
        waiting_s = self._since(self._waiting_since)
        if waiting_s > PATIENCE_S:
            return f"{self._scheduler.loop.inbox:,} facts have waited for {waiting_s:.0f} s and no turn has ended"
        return ""

    def why_not_ready(self) -> str:
        """Return why it is not ready, or an empty string. A standby is ready: it can take over."""
        scheduler = self._scheduler
        if not scheduler.mandate.is_held:
            return ""
        if not scheduler.is_synced:
            missing = [one for one in scheduler.reflectors.values() if not one.synced.is_set()]
            names = ", ".join(one.resource.plural for one in missing) or "nothing more"
            error = next((one.last_error for one in missing if one.last_error), "")
            return f"waiting for the lists of {names}" + (f": {error}" if error else "")
        age_s = scheduler.view_age_s()
        return f"the last update of pods or nodes was {age_s:.0f} s ago" if age_s > STALE_S else ""

    def role(self) -> str:
        """Return the role of this process."""
        if not self._scheduler.mandate.is_held:
            return "standby: another scheduler has the lease, or it was not requested yet"
        return "leading" if self._scheduler.is_synced else "leading, not scheduling yet"

    def _since(self, at: int | None) -> float:
        return 0.0 if at is None else (self._clock.now() - at) / NANOSECONDS

    def _look_at_inbox(self) -> None:
        loop = self._scheduler.loop
        if not loop.inbox or not self._scheduler.is_synced or loop.last_turn_at != self._turn_seen:
            self._turn_seen, self._waiting_since = loop.last_turn_at, None
        if loop.inbox and self._scheduler.is_synced and self._waiting_since is None:
            self._waiting_since = self._clock.now()


def _do_nothing() -> None:
    """Do nothing, on the engine's thread."""
