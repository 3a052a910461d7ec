"""The loop: facts in, one turn of the engine, actions out; and again as soon as there is something to do.

Path of a pod: a reflector sees it, the watched cluster makes a fact of it, the fact waits in the inbox, a turn applies
it and decides, the action goes to the binder, and the outcome comes back to the inbox. Decisions are made only as fast
as binds are sent, so that none grows stale in a queue. Used by ``process``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hostler.kube.api.decoding import uid_of
from hostler.kube.api.reflector import ObjectUpdate
from hostler.kube.api.resources import PODS, Resource
from hostler.kube.facts.views import PodView
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.scheduler.actions.binder import Binder
from hostler.kube.scheduler.actions.evictor import Evictor
from hostler.kube.scheduler.actions.external_answers import ExternalAnswers
from hostler.kube.scheduler.actions.group_statuses import Gatherings, GroupStatuses
from hostler.kube.scheduler.actions.reports import Reports
from hostler.kube.scheduler.actions.statuses import Statuses
from hostler.kube.scheduler.core import Core, TurnResult
from hostler.kube.scheduler.meters import SchedulerMeters
from hostler.kube.scheduler.pod_times import PodTimesBook
from hostler.model import (
    Abandon,
    Action,
    Ask,
    Bind,
    Defer,
    Event,
    Evict,
    GangLeft,
    GuestArrived,
    GuestBound,
    GuestLeft,
    HostLeft,
    Nominate,
    Prepare,
)
from hostler.runtime.clock import Clock
from hostler.runtime.engine_thread import Executor
from hostler.telemetry.log import QUIET, Log

__all__ = ["Executors", "Loop"]

_SECOND = 1_000_000_000
_LOOK_AGAIN_NS = _SECOND  # while nothing may be sent
_GATHER_NS = _SECOND // 20
_GLANCE_S = 0.005
SCHEDULER_ERROR = "SchedulerError"


class Executors(msgspec.Struct, frozen=True):
    """The components that carry out actions."""

    binder: Binder
    evictor: Evictor
    statuses: Statuses
    groups: GroupStatuses
    reports: Reports
    external_answers: ExternalAnswers


class Loop:
    """Turns facts into actions."""

    def __init__(
        self,
        core: Core,
        cluster: WatchedCluster,
        clock: Clock,
        executor: Executor,
        meters: SchedulerMeters,
        log: Log = QUIET,
    ) -> None:
        self.core = core
        self.cluster = cluster
        self.last_turn_at = 0
        self.times = PodTimesBook()
        self._clock = clock
        self._executor = executor
        self._meters = meters
        self._log = log
        self._executors: Executors | None = None
        self._gatherings: Gatherings | None = None
        self._gangs_said: dict[str, str] = {}  # the last logged reason of each gang
        self._inbox: list[Event] = []
        self._wake = asyncio.Event()
        self._due: int | None = None

    @property
    def inbox(self) -> int:
        """Return how many facts wait for the next turn."""
        return len(self._inbox)

    # -- facts -----------------------------------------------------------------------------------------------------

    def add_fact(self, event: Event) -> None:
        """Add a fact for the next turn."""
        if type(event) is GuestBound:
            self.cluster.note_bound(event.uid, event.host)
        if self._log.has_facts:
            self._log.fact("fact", fact=event)
        self._inbox.append(event)
        self._wake.set()

    def observe(self, resource: Resource[Any], updates: Sequence[ObjectUpdate[Any]]) -> None:
        """Convert updates of a reflector to facts."""
        self._take(self.cluster.take(resource, updates, self._clock.now()))
        if resource is PODS:
            self._report_problems(updates)

    def open(self) -> None:
        """Convert everything that was listed to facts."""
        self._take(self.cluster.open(self._clock.now()))

    def adopt(self, profiles: Mapping[str, str]) -> None:
        """Switch to other scheduler names."""
        self._take(self.cluster.adopt(profiles, self._clock.now()))

    def wake(self) -> None:
        """Check whether there is something to do."""
        self._wake.set()

    def _take(self, events: Sequence[Event]) -> None:
        if not events:
            return
        executors = self._executors
        for event in events:
            if type(event) is GuestLeft:
                self.times.forget(event.uid)
            elif type(event) is GuestArrived and not event.guest.host:
                self.times.note_arrival(event.guest.uid, event.at)
        if executors is not None:
            for event in events:
                if type(event) is GuestLeft:
                    self._forget(event.uid)
                    executors.external_answers.forget(event.uid)
                elif type(event) is GangLeft:
                    executors.groups.forget(event.key)
                    self._gangs_said.pop(event.key, None)
                elif type(event) is HostLeft:
                    executors.binder.note_lost_node(event.name)
        arrived = sum(type(event) is GuestArrived and not event.guest.host for event in events)
        if arrived:
            self._meters.count_incoming("PodAdd", "active", arrived)
        if self._log.has_facts:
            for event in events:
                self._log.fact("fact", fact=event)
        self._inbox.extend(events)
        self._wake.set()

    def _report_problems(self, updates: Sequence[ObjectUpdate[Any]]) -> None:
        for update in updates:
            if update.new is None:
                if update.old is not None:
                    self._forget(uid_of(update.old))
                continue
            metadata = getattr(update.new, "metadata", None)
            uid = update.new.uid if metadata is None and update.new is not None else getattr(metadata, "uid", "")
            pod = self.cluster.pods.get(uid)
            if pod is not None and pod.problem:
                self._report_problem(pod)

    def _forget(self, uid: str) -> None:
        """Forget a pod that is gone, even if the engine never knew it."""
        if self._executors is not None:
            self._executors.statuses.forget(uid)
            self._executors.reports.forget(uid)

    def _report_problem(self, pod: PodView) -> None:
        """Report to a pod's owner why it could not be converted."""
        if pod.problem and pod.is_ours and not pod.node and self._executors is not None:
            if self._executors.statuses.report_unschedulable(pod, pod.problem, SCHEDULER_ERROR):
                self._executors.reports.report_unschedulable(pod, pod.problem)
            self._meters.count_attempts("error", pod.scheduler_name)

    def report_failure(self, pod: PodView, why: str) -> None:
        """Report to a pod's owner a failure that is not the fault of nodes."""
        if self._executors is not None and self._executors.statuses.report_unschedulable(pod, why, SCHEDULER_ERROR):
            self._executors.reports.report_unschedulable(pod, why)

    # -- turns -----------------------------------------------------------------------------------------------------

    async def run(self, executors: Executors) -> None:
        """Take turns forever; cancel it to end."""
        self._executors = executors
        for pod in self.cluster.pods.values():  # those that were there before the executors were
            self._report_problem(pod)
        gatherings = Gatherings(
            self.cluster, executors.statuses, executors.groups, executors.reports, self._meters, self._log
        )
        try:
            await self._take_turns(executors, gatherings)
        finally:
            gatherings.close()

    async def _take_turns(self, executors: Executors, gatherings: Gatherings) -> None:
        while True:
            await self._wait(executors.binder)
            await self._gather(executors.binder)
            self._wake.clear()
            now = self._clock.now()
            self._take(self.cluster.tick(now))
            events, self._inbox = self._inbox, []
            limit = executors.binder.room()
            turn = await self._executor.run(lambda e=events, n=now, at_most=limit: self.core.turn(e, n, at_most))  # type: ignore[misc]
            self._due = turn.due
            self.last_turn_at = self._clock.now()
            self._after(turn, executors, now)
            gatherings.take(turn.gathering)

    async def _wait(self, binder: Binder) -> None:
        """Wait for facts, for the next due time, or for room to carry out more."""
        if self._wake.is_set():
            return
        due = self._due
        if due is not None and binder.room() <= 0:  # there is no event when the mandate returns: poll
            due = max(due, self._clock.now() + _LOOK_AGAIN_NS)
        times = [t for t in (due, self.cluster.due()) if t is not None]
        if not times:
            await self._wake.wait()
            return
        left_s = (min(times) - self._clock.now()) / _SECOND
        if left_s <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(left_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _gather(self, binder: Binder) -> None:
        """Wait for more facts while enough binds are queued: a turn for one costs nearly as much as one for many."""
        until = self._clock.now() + _GATHER_NS
        while binder.has_plenty and self._clock.now() < until:
            await asyncio.sleep(_GLANCE_S)

    def _after(self, turn: TurnResult, executors: Executors, began: int) -> None:
        self._meters.count_turn(turn, self._group_of)
        for uid, tries in turn.tries.items():
            self.times.note_decision(uid, began, tries)
        for action in turn.actions:
            if isinstance(action, Defer):
                self._report_rejection(action, turn, executors)
            else:
                self._carry_out(action, executors)
        for uid, why in turn.failed:
            pod = self.cluster.pods.get(uid)
            if pod is not None:
                self._log.warn("scheduling a pod failed", pod=f"{pod.namespace}/{pod.name}", why=why)
                self.report_failure(pod, f"the scheduler failed for this pod: {why}")
        for event, why in turn.refused:
            self._log.warn("the engine rejected a fact", fact=type(event).__name__, why=why)
        for uid, budget in turn.broken:
            self._report_broken_budget(uid, budget, executors)
        self._log_gangs(turn)

    def _group_of(self, uid: str) -> str:
        pod = self.cluster.pods.get(uid)
        return pod.group if pod is not None else ""

    def _report_broken_budget(self, uid: str, budget: str, executors: Executors) -> None:
        """Report to a victim's owner that its disruption budget was broken, because nothing else made room."""
        pod = self.cluster.pods.get(uid)
        if pod is not None:
            self._log.warn("disruption budget broken", budget=budget, pod=f"{pod.namespace}/{pod.name}")
            note = (
                f"preempted although disruption budget {budget} allows no more disruptions: there were no other victims"
            )
            executors.reports.warn(pod, "DisruptionBudgetBroken", note)

    def _log_gangs(self, turn: TurnResult) -> None:
        """Log decisions about gangs; a repeated rejection is logged once."""
        placed: dict[str, int] = {}
        for action in turn.actions:
            pod = self.cluster.pods.get(action.uid) if isinstance(action, Bind) else None
            if pod is not None and pod.group:
                placed[pod.group] = placed.get(pod.group, 0) + 1
        for gang, members in placed.items():
            self._gangs_said.pop(gang, None)
            self._log.info("gang decided", gang=gang, members=members)
        for gang, why in turn.gang_messages.items():
            if self._gangs_said.get(gang) != why:
                self._gangs_said[gang] = why
                self._log.info("gang unschedulable", gang=gang, why=why)

    def _carry_out(self, action: Action, executors: Executors) -> None:
        match action:
            case Bind():
                executors.statuses.forget(action.uid)
                executors.binder.submit(action)
            case Evict():
                executors.evictor.submit(action)
            case Nominate():
                pod = self.cluster.pods.get(action.uid)
                if pod is not None:
                    executors.statuses.nominate(pod, action.host)
            case Ask():
                executors.external_answers.ask(action)
            case Prepare():
                executors.external_answers.prepare(action)
            case Abandon():
                executors.external_answers.abandon(action)

    def _report_rejection(self, hold: Defer, turn: TurnResult, executors: Executors) -> None:
        pod, message = self.cluster.pods.get(hold.uid), turn.messages.get(hold.uid, "")
        if pod is None or not message:
            return
        if self._log.has_details:
            self._log.detail("unschedulable", pod=f"{pod.namespace}/{pod.name}", attempt=hold.attempt, why=message)
        self._meters.count_rejected(pod.scheduler_name, turn.took_ns / _SECOND)
        executors.statuses.report_unschedulable(pod, message)
        executors.reports.report_unschedulable(pod, message)
        executors.groups.report_unschedulable(pod, turn.gang_messages.get(pod.group, message))
