"""One scheduler, put together: wait for the lease, list and watch, decide and carry out, stop cleanly.

Nothing is read before the lease is ours, so that everything decided on is newer than our own lease write. Losing the
lease ends everything at once; a request to stop lets what was sent finish and gives the lease back. So does a bug of
ours that ends one of the tasks: half a scheduler is worse than none. Used by the command ``hostler kube schedule`` and
by simulations.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from hostler.engine.engine import Engine
from hostler.engine.journal import Recorder
from hostler.engine.registry import Registry
from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock
from hostler.kube.api.reflector import Reflector
from hostler.kube.api.resources import NODES, PODS
from hostler.kube.configuration import with_mixes
from hostler.kube.configuration.election import check_election
from hostler.kube.extender.answering import answers_from
from hostler.kube.extender.asking import Call, Extenders, with_extenders
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.views import PodView
from hostler.kube.facts.world import World
from hostler.kube.scheduler.binder import Binder
from hostler.kube.scheduler.changes import Changes, changes_between
from hostler.kube.scheduler.comparer import Comparer, follow
from hostler.kube.scheduler.core import Core
from hostler.kube.scheduler.election import Leadership, Mandate, NoElection
from hostler.kube.scheduler.evictor import Evictor
from hostler.kube.scheduler.executor import Executor
from hostler.kube.scheduler.extended import binds_through
from hostler.kube.scheduler.group_statuses import GroupStatuses
from hostler.kube.scheduler.loop import Hands, Loop
from hostler.kube.scheduler.meters import Meters
from hostler.kube.scheduler.outside import Outside
from hostler.kube.scheduler.pressure import Breaker
from hostler.kube.scheduler.reports import Reports
from hostler.kube.scheduler.statuses import Statuses
from hostler.kube.scheduler.tasks import Accidents, before, death, failure_of, first, start
from hostler.kube.scheduler.trail import Trail
from hostler.kube.scheduler.volumes import VolumePreparer
from hostler.kube.settings import SchedulerSettings
from hostler.model import Policy, PolicyChanged

__all__ = ["Ending", "Scheduler"]

Ending = Literal["stopped", "lost"]

_SECOND = 1_000_000_000
_STALE_AFTER_S = 100.0  # bookmarks come about once a minute, and a silent watch is reopened before this
_KEEPING = "keeping the lease"
_CARRYING = "carrying out a decision"
_LAST_WORDS_S = 5.0  # for events and conditions when asked to stop


class Scheduler:
    """One scheduler on one cluster."""

    def __init__(
        self,
        client: Client,
        settings: SchedulerSettings,
        *,
        clock: Clock,
        executor: Executor,
        identity: str,
        random: random.Random,
        journal: Callable[[bytes], object] | None = None,
        calls: Call | None = None,
        timer: Callable[[], int] = lambda: 0,
        registry: Registry | None = None,
        say: Callable[[str], None] = lambda text: None,
        meters: Meters | None = None,
    ) -> None:
        check_election(settings)
        self.settings = settings
        self.identity = identity
        self.meters = meters or Meters()
        self.mandate: Mandate = NoElection()
        if settings.election.is_on:
            self.mandate = Leadership(
                client,
                settings.election,
                identity,
                bind_timeout_s=settings.longest_bind_s,
                clock=clock,
                random=random,
            )
        self.world = World(
            {profile.scheduler_name: profile.policy for profile in settings.profiles},
            seed_annotations=settings.seed_annotations,
            gangs=settings.gangs,
        )
        extenders = Extenders(settings.extenders, calls) if settings.extenders and calls is not None else None
        engine = Engine(self._policies(settings), clock.now(), settings.seed, rules=settings.queue, registry=registry)
        self.recorder = Recorder(engine, journal) if journal is not None else None
        self.core = Core(engine, self.recorder, timer)
        self.loop = Loop(self.core, self.world, clock, executor, self.meters)
        self.breaker = Breaker()
        self.reflectors: dict[str, Reflector[Any]] = {
            kind.resource.kind + kind.resource.group: Reflector(
                client, kind.resource, self.loop.observe, clock=clock, random=random, is_optional=kind.is_optional
            )
            for kind in KINDS
        }
        self.is_synced = False
        self.on_leading: Callable[[], None] = lambda: None
        self.on_synced: Callable[[], None] = lambda: None
        self._clock = clock
        self._random = random
        self._executor = executor
        self._adopting = asyncio.Lock()
        self.breaker.on_close = self.loop.nudge
        # Its own breaker: where only statuses and events go wrong, pods are bound all the same.
        self.trail = Trail(
            clock, most=32, is_busy=lambda: self.binder.backlog > 0, may_write=self._may_write, breaker=Breaker()
        )
        self.hands = self._make_hands(client, extenders)
        self.binder = self.hands.binder
        self._accidents = Accidents()
        for part in (self.binder, self.hands.evictor, self.hands.outside):
            part.watch = self._accidents.watch
        self._doubts = {name: asyncio.Event() for name in self.reflectors}
        self.comparer = Comparer(
            client, self.reflectors, self.loop, self.binder, executor, relist=self._relist, say=say
        )

    def _make_hands(self, client: Client, extenders: Extenders | None) -> Hands:
        """Make everything that carries out actions."""
        limits, clock = self.settings.limits, self._clock
        reports = Reports(client, clock, self.trail, identity=self.identity, timeout_s=limits.call_timeout_s)
        statuses = Statuses(client, self.world, clock, self.trail, limits.bind_timeout_s)
        binder = Binder(
            client,
            self.world,
            clock,
            self.loop.tell,
            most=limits.max_in_flight,
            timeout_s=self.settings.longest_bind_s,
            may_write=self._may_write,
            breaker=self.breaker,
            on_bound=self._bound,
            on_failed=self.loop.refuse,
            call=binds_through(extenders, client) if extenders is not None else None,
        )
        evictor = Evictor(
            client,
            self.world,
            clock,
            self.loop.tell,
            binder,
            reports,
            may_evict=self._may_evict,
            timeout_s=limits.bind_timeout_s,
        )
        preparer = VolumePreparer(self.world, client, limits.call_timeout_s, self._random)
        answer = answers_from(extenders, self.world, client, clock) if extenders is not None else None
        outside = Outside(self.loop.tell, answer=answer, prepare=preparer, on_failed=self._unanswered)
        groups = GroupStatuses(client, self.world, clock, self.trail, limits.call_timeout_s)
        return Hands(binder, evictor, statuses, groups, reports, outside)

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> Ending:
        """Schedule until told to stop or until the lease is lost; a bug that ends a part of it is raised."""
        stopping = start("waiting for the end", stop.wait())
        tasks = [stopping]
        ended: asyncio.Task[Any] = stopping
        is_settled = True
        try:
            if await before(stopping, self.mandate.acquire()):
                ended = await self._lead(stopping, tasks)
                if ended.get_name() == _KEEPING and failure_of(ended) is None:
                    return "lost"
                is_settled = await self.binder.drain(3 * self.settings.longest_bind_s)
                await self.trail.drain(_LAST_WORDS_S)
        finally:
            await self._end(tasks)
        if is_settled:  # else whoever comes next must wait for our last binds
            await self.mandate.release()
        if ended is not stopping:
            raise death(ended)
        return "stopped"

    async def _lead(self, stopping: asyncio.Task[Any], tasks: list[asyncio.Task[Any]]) -> asyncio.Task[Any]:
        """Run all parts; return the first one that ended, decisions having ended too."""
        self.on_leading()
        tasks.append(start(_KEEPING, self.mandate.keep()))
        tasks += [start(f"following {name}", follow(one, self._doubts[name])) for name, one in self.reflectors.items()]
        synced = start("listing", self._synced())
        ended = await first(stopping, [*tasks, synced])
        if ended is not synced or failure_of(synced) is not None:
            synced.cancel()
            return ended
        turning = start("deciding", self._turn())
        tasks += [turning, start("comparing", self.comparer.run()), start(_CARRYING, self._accidents.wait())]
        ended = await first(stopping, tasks)
        turning.cancel()
        return ended

    async def _turn(self) -> None:
        self.loop.open()
        self.is_synced = True
        self.on_synced()
        await self.loop.run(self.hands)

    async def adopt(self, settings: SchedulerSettings) -> Changes:
        """Go on by other settings; return what was taken over, and what needs a new start.

        Policies that the engine refuses, as it is now with all its nodes, raise and change nothing.
        """
        async with self._adopting:  # one after the other: each begins where the one before ended
            old, changes = self.settings, changes_between(self.settings, settings)
            settings = msgspec.structs.replace(
                old, policies=settings.policies, profiles=settings.profiles, notes=settings.notes
            )
            if settings.policies != old.policies or settings.profiles != old.profiles:
                # Pods change their policies in between, while both the old ones and the new ones are known.
                wanted = self._policies(settings)
                known = {policy.name: policy for policy in (*self._policies(old), *wanted)}
                both = PolicyChanged(policies=(*wanted, *(p for p in known.values() if p not in wanted)))
                await self._executor.run(lambda: self.core.apply(both))
                self.loop.adopt({profile.scheduler_name: profile.policy for profile in settings.profiles})
                self.loop.tell(PolicyChanged(policies=wanted))
            self.settings = settings
            return changes

    @staticmethod
    def _policies(settings: SchedulerSettings) -> tuple[Policy, ...]:
        return with_extenders(with_mixes(settings.policies), settings.extenders)

    async def _synced(self) -> None:
        for reflector in self.reflectors.values():
            await reflector.synced.wait()

    async def _end(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        for part in (self.binder, self.hands.evictor, self.hands.outside, self.trail):
            await part.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _relist(self, reflector: Reflector[Any]) -> None:
        """Let a reflector list anew: its copy was found wrong."""
        self._doubts[reflector.resource.kind + reflector.resource.group].set()

    # -- rules -----------------------------------------------------------------------------------------------------

    def _may_write(self) -> bool:
        return self.mandate.is_held

    def _may_evict(self) -> bool:
        """Say whether our view is fresh enough to end what somebody runs."""
        return self.mandate.is_held and not self.breaker.is_open and self.view_age_s() < _STALE_AFTER_S

    def view_age_s(self) -> float:
        """Return how long ago pods or nodes were last heard of, whichever is longer."""
        heard = min(self.reflectors[kind.kind + kind.group].heard_at for kind in (PODS, NODES))
        return (self._clock.now() - heard) / _SECOND

    def _unanswered(self, uid: str, why: str) -> None:
        """Tell a pod's owner that something outside, such as an extender, failed."""
        pod = self.world.pods.get(uid)
        if pod is not None and not pod.node:
            self.loop.refuse(pod, why)

    def _bound(self, pod: PodView, node: str, decided_at: int) -> None:
        now = self._clock.now()
        self.hands.reports.scheduled(pod, node)
        self.hands.groups.placed(pod)
        self.meters.bound(pod.scheduler_name, (now - decided_at) / _SECOND, (now - pod.created) / _SECOND)
