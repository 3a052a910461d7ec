"""Gangs that wait for members, told to the owners of those that are there: once, and again when it takes too long.

Members of a gang are created one after another, so nothing is said within the first second. After that a pod has one
event, however the number of members changes; its condition carries the number of the day. Used by ``loop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from hostler.kube.facts.views import PodView
from hostler.kube.facts.world import World
from hostler.kube.scheduler.group_statuses import GroupStatuses
from hostler.kube.scheduler.meters import Meters
from hostler.kube.scheduler.reports import Reports
from hostler.kube.scheduler.statuses import Statuses
from hostler.kube.scheduler.wording import gathering_text
from hostler.telemetry.log import QUIET, Log

__all__ = ["Gatherings"]

_SETTLE_S = 1.0
_PATIENCE_S = 300.0
_TOPIC = "gathering"


class _Gathering(msgspec.Struct):
    """One gang that cannot be tried yet."""

    why: str
    members: Sequence[str]
    late: asyncio.TimerHandle
    is_told: bool = False


class Gatherings:
    """Follows the gangs that are not complete."""

    def __init__(
        self, world: World, statuses: Statuses, groups: GroupStatuses, reports: Reports, meters: Meters
    ) -> None:
        self.log: Log = QUIET
        self._world = world
        self._statuses = statuses
        self._groups = groups
        self._reports = reports
        self._meters = meters
        self._waiting: dict[str, _Gathering] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self, gangs: Mapping[str, tuple[str, Sequence[str]]]) -> None:
        """Take how these gangs stand now."""
        loop = asyncio.get_running_loop()
        for key, (why, members) in gangs.items():
            known = self._waiting.get(key)
            if not why or not members:
                if known is not None:
                    known.late.cancel()
                    del self._waiting[key]
                continue
            if known is None:
                known = _Gathering("", (), loop.call_later(_PATIENCE_S, self._late, key))
                self._waiting[key] = known
            known.why, known.members, known.is_told = gathering_text(why), members, False
            if self._timer is None:
                self._timer = loop.call_later(_SETTLE_S, self._settled)

    def close(self) -> None:
        """Say nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        for one in self._waiting.values():
            one.late.cancel()

    def _settled(self) -> None:
        self._timer = None
        for key, one in self._waiting.items():
            if one.is_told:
                continue
            one.is_told = True
            self.log.info("gang waits for members", gang=key, why=one.why)
            for pod in self._pods(one):
                if self._statuses.refuse(pod, one.why):
                    self._reports.refused(pod, one.why, topic=_TOPIC)
                    self._groups.refused(pod, one.why)

    def _late(self, key: str) -> None:
        """Tell that it takes long; whoever made the gang may have forgotten a part of it."""
        one = self._waiting[key]
        self._meters.gang_timeouts.inc()
        self.log.warn("gang has waited long for members", gang=key, seconds=int(_PATIENCE_S), why=one.why)
        note = f"after {_PATIENCE_S:g} s: {one.why}; nothing is held for it meanwhile"
        for pod in self._pods(one):
            self._reports.warn(pod, "GangWaitTimeout", note)

    def _pods(self, one: _Gathering) -> list[PodView]:
        views = [self._world.pods.get(uid) for uid in one.members]
        return [pod for pod in views if pod is not None and not pod.node]
