"""The loop: facts in, one turn of the engine, actions out; and again as soon as there is something to do.

Path of a pod: a reflector sees it, the world makes a fact of it, the fact waits in the inbox, a turn applies it and
decides, the action goes to the binder, and the outcome comes back to the inbox. Decisions are made only as fast as
binds can be carried out, so that none grows old in a queue. Used by ``process``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hostler.kube.api.clock import Clock
from hostler.kube.api.decoding import uid_of
from hostler.kube.api.reflector import Update
from hostler.kube.api.resources import PODS, Resource
from hostler.kube.facts.views import PodView
from hostler.kube.facts.world import World
from hostler.kube.scheduler.binder import Binder
from hostler.kube.scheduler.core import Core, Turn
from hostler.kube.scheduler.evictor import Evictor
from hostler.kube.scheduler.executor import Executor
from hostler.kube.scheduler.gatherings import Gatherings
from hostler.kube.scheduler.group_statuses import GroupStatuses
from hostler.kube.scheduler.meters import Meters
from hostler.kube.scheduler.outside import Outside
from hostler.kube.scheduler.reports import Reports
from hostler.kube.scheduler.statuses import Statuses
from hostler.model import (
    Abandon,
    Action,
    Ask,
    Bind,
    Event,
    Evict,
    GangLeft,
    GuestArrived,
    GuestBound,
    GuestLeft,
    Hold,
    HostLeft,
    Nominate,
    Prepare,
)
from hostler.telemetry.log import QUIET, Log

__all__ = ["Hands", "Loop"]

_SECOND = 1_000_000_000
_LOOK_AGAIN_NS = _SECOND  # while nothing may be sent
_GATHER_NS = _SECOND // 20
_GLANCE_S = 0.005
SCHEDULER_ERROR = "SchedulerError"


class Hands(msgspec.Struct, frozen=True):
    """Everything that carries out actions."""

    binder: Binder
    evictor: Evictor
    statuses: Statuses
    groups: GroupStatuses
    reports: Reports
    outside: Outside


class Loop:
    """Turns facts into actions."""

    def __init__(self, core: Core, world: World, clock: Clock, executor: Executor, meters: Meters) -> None:
        self.core = core
        self.world = world
        self.last_turn_at = 0
        self.log: Log = QUIET
        self._clock = clock
        self._executor = executor
        self._meters = meters
        self._hands: Hands | None = None
        self._gatherings: Gatherings | None = None
        self._gangs_said: dict[str, str] = {}  # what the log says of gangs
        self._inbox: list[Event] = []
        self._wake = asyncio.Event()
        self._due: int | None = None

    @property
    def inbox(self) -> int:
        """Return how many facts wait for the next turn."""
        return len(self._inbox)

    # -- facts -----------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Take a fact for the next turn."""
        if type(event) is GuestBound:
            self.world.bound(event.uid, event.host)
        if self.log.has_facts:
            self.log.fact("fact", fact=event)
        self._inbox.append(event)
        self._wake.set()

    def observe(self, resource: Resource[Any], updates: Sequence[Update[Any]]) -> None:
        """Take what a reflector saw."""
        self._take(self.world.take(resource, updates, self._clock.now()))
        if resource is PODS:
            self._report_problems(updates)

    def open(self) -> None:
        """Take all that was seen before everything was listed."""
        self._take(self.world.open(self._clock.now()))

    def adopt(self, profiles: Mapping[str, str]) -> None:
        """Place the pods of other scheduler names from now on."""
        self._take(self.world.adopt(profiles, self._clock.now()))

    def nudge(self) -> None:
        """Look whether there is something to do."""
        self._wake.set()

    def _take(self, events: Sequence[Event]) -> None:
        if not events:
            return
        hands = self._hands
        if hands is not None:
            for event in events:
                if type(event) is GuestLeft:
                    self._forget(event.uid)
                    hands.outside.forget(event.uid)
                elif type(event) is GangLeft:
                    hands.groups.forget(event.key)
                    self._gangs_said.pop(event.key, None)
                elif type(event) is HostLeft:
                    hands.binder.lost(event.name)
        arrived = sum(type(event) is GuestArrived and not event.guest.host for event in events)
        if arrived:
            self._meters.incoming("PodAdd", "active", arrived)
        if self.log.has_facts:
            for event in events:
                self.log.fact("fact", fact=event)
        self._inbox.extend(events)
        self._wake.set()

    def _report_problems(self, updates: Sequence[Update[Any]]) -> None:
        for update in updates:
            if update.new is None:
                if update.old is not None:
                    self._forget(uid_of(update.old))
                continue
            metadata = getattr(update.new, "metadata", None)
            uid = update.new.uid if metadata is None and update.new is not None else getattr(metadata, "uid", "")
            pod = self.world.pods.get(uid)
            if pod is not None and pod.problem:
                self._report_problem(pod)

    def _forget(self, uid: str) -> None:
        """Keep nothing about a pod that is gone; one that was never told to the engine included."""
        if self._hands is not None:
            self._hands.statuses.forget(uid)
            self._hands.reports.forget(uid)

    def _report_problem(self, pod: PodView) -> None:
        """Tell a pod's owner why it was not even looked at."""
        if pod.problem and pod.is_ours and not pod.node and self._hands is not None:
            if self._hands.statuses.refuse(pod, pod.problem, SCHEDULER_ERROR):
                self._hands.reports.refused(pod, pod.problem)
            self._meters.attempts("error", pod.scheduler_name)

    def refuse(self, pod: PodView, why: str) -> None:
        """Tell a pod's owner that it could not be placed by no fault of the nodes."""
        if self._hands is not None and self._hands.statuses.refuse(pod, why, SCHEDULER_ERROR):
            self._hands.reports.refused(pod, why)

    # -- turns -----------------------------------------------------------------------------------------------------

    async def run(self, hands: Hands) -> None:
        """Turn for ever; cancelled to end."""
        self._hands = hands
        for pod in self.world.pods.values():  # those that were there before anybody could be told
            self._report_problem(pod)
        hands.binder.on_room = self.nudge
        gatherings = Gatherings(self.world, hands.statuses, hands.groups, hands.reports, self._meters)
        gatherings.log = self.log
        try:
            await self._turn_for_ever(hands, gatherings)
        finally:
            gatherings.close()

    async def _turn_for_ever(self, hands: Hands, gatherings: Gatherings) -> None:
        while True:
            await self._wait(hands.binder)
            await self._gather(hands.binder)
            self._wake.clear()
            now = self._clock.now()
            self._take(self.world.tick(now))
            events, self._inbox = self._inbox, []
            limit = hands.binder.room()
            turn = await self._executor.run(lambda e=events, n=now, at_most=limit: self.core.turn(e, n, at_most))  # type: ignore[misc]
            self._due = turn.due
            self.last_turn_at = self._clock.now()
            self._after(turn, hands)
            gatherings.take(turn.gathering)

    async def _wait(self, binder: Binder) -> None:
        """Wait for facts, for a time that matters, or for room to carry out more."""
        if self._wake.is_set():
            return
        due = self._due
        if due is not None and binder.room() <= 0:  # nobody tells when the mandate comes back: look now and then
            due = max(due, self._clock.now() + _LOOK_AGAIN_NS)
        times = [t for t in (due, self.world.due()) if t is not None]
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
        """Let facts gather while enough binds wait to be sent: a turn for one costs nearly as much as one for many."""
        until = self._clock.now() + _GATHER_NS
        while binder.has_plenty and self._clock.now() < until:
            await asyncio.sleep(_GLANCE_S)

    def _after(self, turn: Turn, hands: Hands) -> None:
        self._meters.turn(turn)
        for action in turn.actions:
            if isinstance(action, Hold):
                self._refuse(action, turn, hands)
            else:
                self._carry_out(action, hands)
        for uid, why in turn.failed:
            pod = self.world.pods.get(uid)
            if pod is not None:
                self.log.warn("a pod could not be decided", pod=f"{pod.namespace}/{pod.name}", why=why)
                self.refuse(pod, f"the scheduler failed on this pod: {why}")
        for event, why in turn.refused:
            self.log.warn("a fact was not taken", fact=type(event).__name__, why=why)
        for uid, budget in turn.broken:
            self._tell_broken(uid, budget, hands)
        self._log_gangs(turn)

    def _tell_broken(self, uid: str, budget: str, hands: Hands) -> None:
        """Tell a victim's owner that its budget was not kept, because nothing else made room."""
        pod = self.world.pods.get(uid)
        if pod is not None:
            self.log.warn("disruption budget broken", budget=budget, pod=f"{pod.namespace}/{pod.name}")
            note = f"preempted although the disruption budget {budget} allows no more: nothing else made room"
            hands.reports.warn(pod, "DisruptionBudgetBroken", note)

    def _log_gangs(self, turn: Turn) -> None:
        """Log what was decided of gangs; the same refusal again is no news."""
        placed: dict[str, int] = {}
        for action in turn.actions:
            pod = self.world.pods.get(action.uid) if isinstance(action, Bind) else None
            if pod is not None and pod.group:
                placed[pod.group] = placed.get(pod.group, 0) + 1
        for gang, members in placed.items():
            self._gangs_said.pop(gang, None)
            self.log.info("gang decided", gang=gang, members=members)
        for gang, why in turn.gang_messages.items():
            if self._gangs_said.get(gang) != why:
                self._gangs_said[gang] = why
                self.log.info("gang refused", gang=gang, why=why)

    def _carry_out(self, action: Action, hands: Hands) -> None:
        match action:
            case Bind():
                hands.statuses.forget(action.uid)
                hands.binder.submit(action)
            case Evict():
                hands.evictor.submit(action)
            case Nominate():
                pod = self.world.pods.get(action.uid)
                if pod is not None:
                    hands.statuses.nominate(pod, action.host)
            case Ask():
                hands.outside.ask(action)
            case Prepare():
                hands.outside.prepare(action)
            case Abandon():
                hands.outside.abandon(action)

    def _refuse(self, hold: Hold, turn: Turn, hands: Hands) -> None:
        pod, message = self.world.pods.get(hold.uid), turn.messages.get(hold.uid, "")
        if pod is None or not message:
            return
        if self.log.has_details:
            self.log.detail("refused", pod=f"{pod.namespace}/{pod.name}", attempt=hold.attempt, why=message)
        self._meters.attempts("unschedulable", pod.scheduler_name)
        hands.statuses.refuse(pod, message)
        hands.reports.refused(pod, message)
        hands.groups.refused(pod, turn.gang_messages.get(pod.group, message))
