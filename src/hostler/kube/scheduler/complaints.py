"""What goes wrong while a scheduler runs, said aloud: at once when it lasts, then once a minute, and when it is over.

A scheduler that cannot list, or gets no lease, waits and tries again; whoever looks at its log must learn why. Used by
``main``.
"""

from __future__ import annotations

import asyncio

from hostler.kube.api.clock import NANOSECONDS, Clock
from hostler.kube.scheduler.process import Scheduler
from hostler.telemetry.log import Log

__all__ = ["Complaints"]

_EVERY_S = 2.0
_AGAIN_NS = 60 * NANOSECONDS
_MOST = 5  # lines each time; an outage has the same reason for all


class Complaints:
    """Looks now and then at what the parts of a scheduler could not do."""

    def __init__(self, scheduler: Scheduler, log: Log, clock: Clock) -> None:
        self._scheduler = scheduler
        self._log = log
        self._clock = clock
        self._before: set[str] = set()
        self._said: dict[str, int] = {}  # when each was said last
        self._refused = 0
        self._odd: dict[str, str] = {}  # objects that are left out, and why

    async def watch(self) -> None:
        """Look for ever; cancelled to end."""
        while True:
            await asyncio.sleep(_EVERY_S)
            self.look()

    def look(self) -> None:
        """Look once."""
        now, current = self._clock.now(), self._current()
        # What is seen twice lasts; a connection that broke once is nobody's business.
        lasting = [why for why in current if why in self._before]
        due = [why for why in lasting if now - self._said.get(why, now - _AGAIN_NS) >= _AGAIN_NS]
        for why in due[:_MOST]:
            self._log.warn(current[why])
            self._said[why] = now
        self._before = set(current)
        if self._said and not current:
            self._said.clear()
            has_lease = self._scheduler.settings.election.is_on
            self._log.info(f"{'lists, watches and the lease' if has_lease else 'lists and watches'} work again")
        self._look_at_writes()
        self._look_at_objects()

    def _current(self) -> dict[str, str]:
        """Return what fails now, each reason with what is said of it."""
        lease = self._scheduler.mandate.last_error
        found = {lease: f"{lease}; trying again"} if lease else {}
        failing: dict[str, list[str]] = {}
        for reflector in self._scheduler.reflectors.values():
            if reflector.last_error:
                failing.setdefault(reflector.last_error, []).append(reflector.resource.plural)
        for why, names in failing.items():
            what = names[-1] if len(names) == 1 else f"{names[-1]} and {len(names) - 1} more resources"
            found[why] = f"cannot list or watch {what}: {why}; trying again"
        return found

    def _look_at_writes(self) -> None:
        counts = self._scheduler.trail.counts
        if counts.refused >= max(1, 2 * self._refused):  # at every doubling: each write may be refused
            self._refused = counts.refused
            self._log.warn(f"{counts.refused} conditions or events were refused, the last: {counts.last_refusal}")

    def _look_at_objects(self) -> None:
        """Name nodes and others that are left out; pods are told by their conditions, and anybody can make many."""
        odd = {place: why for place, why in self._scheduler.world.problems().items() if not place.startswith("pod ")}
        new = [f"{place}: {why}" for place, why in odd.items() if self._odd.get(place) != why]
        for text in new[:_MOST]:
            self._log.warn(text)
        if len(new) > _MOST:
            self._log.warn(f"and {len(new) - _MOST} more objects that cannot be taken as they are")
        self._odd = odd
