"""The condition PodGroupInitiallyScheduled of built-in PodGroups, as kube-scheduler writes it.

True is written once, when the minimum is bound, and never taken back. Groups of the older API have a controller of
their own. Used by ``loop`` and ``process``.

``Gatherings`` notifies the owners of gangs that wait for members: once, and again when it takes too long. Members of a
gang are created one after another, so nothing is reported within the first second. After that a pod gets one event,
even if the number of members changes; its condition has the current number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError, is_worth_retrying
from hostler.kube.api.resources import POD_GROUPS
from hostler.kube.facts.views import PodView
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.scheduler.actions.reports import Reports
from hostler.kube.scheduler.actions.statuses import Statuses
from hostler.kube.scheduler.actions.write_queue import WriteQueue
from hostler.kube.scheduler.messages import counting_text, gathering_text
from hostler.kube.scheduler.meters import SchedulerMeters
from hostler.kube.scheduler.times import second_time
from hostler.model import DecisionNote
from hostler.runtime.clock import Clock
from hostler.runtime.transport import TransportError
from hostler.telemetry.log import QUIET, Log

__all__ = ["Gatherings", "GroupStatuses"]

CONDITION = "PodGroupInitiallyScheduled"
_MOST_REMEMBERED = 10_000
_SETTLE_S = 1.0
_COUNTING_S = 5.0  # a gang of annotations without a minimum gathers for a second or two, and nothing is wrong
_PATIENCE_S = 300.0
_TOPIC = "gathering"


class GroupStatuses:
    """Writes the conditions of groups."""

    def __init__(
        self, client: KubeClient, cluster: WatchedCluster, clock: Clock, write_queue: WriteQueue, timeout_s: float
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._write_queue = write_queue
        self._timeout_s = timeout_s
        self._conditions: dict[str, dict[str, str]] = {}  # not written yet
        self._writing: set[str] = set()
        self._said: dict[str, str] = {}  # by group: the last message, or empty once it is scheduled

    def report_scheduled(self, pod: PodView) -> None:
        """Report a group as scheduled once its minimum is bound."""
        gang = self._cluster.gangs.get(pod.group)
        if gang is None or self._said.get(pod.group) == "":
            return
        if self._cluster.placed_in(pod.group, pod.uid) >= gang.min_count:
            self._say(pod.group, "True", "Scheduled", "")

    def forget(self, group: str) -> None:
        """Stop reporting about a group that is gone; another one may get its name."""
        self._said.pop(group, None)

    def report_unschedulable(self, pod: PodView, message: str) -> None:
        """Report why a group without any placed member waits."""
        if pod.group in self._cluster.gangs and self._said.get(pod.group) not in ("", message):
            self._say(pod.group, "False", "Unschedulable", message)

    def _say(self, group: str, status: str, reason: str, message: str) -> None:
        if not self._cluster.is_built_in(group):
            return
        self._said.pop(group, None)
        self._said[group] = message
        while len(self._said) > _MOST_REMEMBERED:
            del self._said[next(iter(self._said))]
        condition = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message or "the minimum of its pods is bound",
            "lastTransitionTime": second_time(self._clock.now()),
        }
        is_first = group not in self._conditions and group not in self._writing
        self._conditions[group] = condition
        if is_first:
            self._write_queue.later(lambda: self._write(group))

    async def _write(self, group: str) -> None:
        """Write the newest condition; one at a time, so that no older one arrives after it."""
        condition = self._conditions.pop(group, None)
        if condition is None:
            return
        namespace, _, name = group.partition("/")
        body = {"status": {"conditions": [condition]}}
        self._writing.add(group)
        try:
            await self._client.patch(
                POD_GROUPS, namespace, name, body, part="status", kind="strategic", timeout_s=self._timeout_s
            )
        except (ApiError, TransportError) as error:
            self._writing.discard(group)
            if is_worth_retrying(error):
                self._conditions.setdefault(group, condition)  # the write queue retries again
            else:
                self._go_on(group)
            raise
        self._writing.discard(group)
        self._go_on(group)

    def _go_on(self, group: str) -> None:
        if group in self._conditions:
            self._write_queue.later(lambda: self._write(group))


class _Gathering(msgspec.Struct):
    """One gang that is not complete yet."""

    why: str
    members: Sequence[str]
    late: asyncio.TimerHandle
    not_before: float = 0.0  # of its first report, in the time of the loop
    is_reported: bool = False


class Gatherings:
    """Follows the gangs that are not complete."""

    def __init__(
        self,
        cluster: WatchedCluster,
        statuses: Statuses,
        groups: GroupStatuses,
        reports: Reports,
        meters: SchedulerMeters,
        log: Log = QUIET,
    ) -> None:
        self._log = log
        self._cluster = cluster
        self._statuses = statuses
        self._groups = groups
        self._reports = reports
        self._meters = meters
        self._waiting: dict[str, _Gathering] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self, gangs: Mapping[str, tuple[DecisionNote | None, Sequence[str]]]) -> None:
        """Update the state of these gangs."""
        loop = asyncio.get_running_loop()
        for key, (why, members) in gangs.items():
            known = self._waiting.get(key)
            if why is None or not members:
                if known is not None:
                    known.late.cancel()
                    del self._waiting[key]
                continue
            if known is None:
                known = _Gathering("", (), loop.call_later(_PATIENCE_S, self._late, key))
                self._waiting[key] = known
                if self._cluster.is_counting(key):
                    known.not_before = loop.time() + _COUNTING_S
            text = counting_text(key) if self._cluster.is_counting(key) else gathering_text(why)
            known.why, known.members, known.is_reported = text, members, False
            self._report_later()

    def close(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()
        for one in self._waiting.values():
            one.late.cancel()

    def _report_gathering(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for key, one in self._waiting.items():
            if one.is_reported:
                continue
            if now < one.not_before:
                self._report_later()
                continue
            one.is_reported = True
            self._log.info("gang waits for members", gang=key, why=one.why)
            for pod in self._pods(one):
                if self._statuses.report_unschedulable(pod, one.why):
                    self._reports.report_unschedulable(pod, one.why, topic=_TOPIC)
                    self._groups.report_unschedulable(pod, one.why)

    def _report_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SETTLE_S, self._report_gathering)

    def _late(self, key: str) -> None:
        """Report a gang that waits for long; its owner may have forgotten a part of it."""
        one = self._waiting[key]
        self._meters.gang_timeouts.inc()
        self._log.warn("gang has waited too long for members", gang=key, seconds=int(_PATIENCE_S), why=one.why)
        note = f"after {_PATIENCE_S:g} s: {one.why}; no room is reserved for it"
        for pod in self._pods(one):
            self._reports.warn(pod, "GangWaitTimeout", note)

    def _pods(self, one: _Gathering) -> list[PodView]:
        views = [self._cluster.pods.get(uid) for uid in one.members]
        return [pod for pod in views if pod is not None and not pod.node]
