"""One scheduler: acquire the lease, list and watch, decide and carry out, stop cleanly.

Nothing is read before the lease is ours, so every decision is based on data newer than our own lease write. Losing the
lease ends everything at once. A stop request lets sent calls finish and then gives the lease back; so does a bug that
ends one of the tasks: half a scheduler is worse than none. Used by the command ``hostler kube schedule`` and by
simulations.

``binds_through`` lets an extender bind in our place, for pods that it manages.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from hostler.engine.engine import Engine
from hostler.engine.journals.journal import Recorder
from hostler.engine.policy.registry import Registry
from hostler.errors import UnavailableError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError
from hostler.kube.api.reflector import Reflector
from hostler.kube.api.resources import NODES, PODS
from hostler.kube.configuration.election import check_election
from hostler.kube.extender.extenders import Call, Extenders, with_extenders
from hostler.kube.extender.live_answers import answers_from
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.views import PodView
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.scheduler.actions.binder import BindCall, Binder
from hostler.kube.scheduler.actions.evictor import Evictor
from hostler.kube.scheduler.actions.external_answers import ExternalAnswers
from hostler.kube.scheduler.actions.group_statuses import GroupStatuses
from hostler.kube.scheduler.actions.pressure import Breaker
from hostler.kube.scheduler.actions.reports import Reports
from hostler.kube.scheduler.actions.statuses import Statuses
from hostler.kube.scheduler.actions.volumes import VolumePreparer
from hostler.kube.scheduler.actions.write_queue import WriteQueue
from hostler.kube.scheduler.changes import Changes, changes_between
from hostler.kube.scheduler.comparer import Comparer, follow
from hostler.kube.scheduler.core import Core
from hostler.kube.scheduler.election import LeaseMandate, Mandate, NoElection
from hostler.kube.scheduler.loop import Executors, Loop
from hostler.kube.scheduler.meters import SchedulerMeters
from hostler.kube.settings import SchedulerSettings
from hostler.model import Policy, PolicyChanged
from hostler.queries import MixRenewal, with_mixes, with_placed_mixes
from hostler.runtime.clock import Clock
from hostler.runtime.engine_thread import Executor
from hostler.runtime.tasks import (
    TaskFailures,
    failure_of,
    finish_before,
    first_to_end,
    start_task,
    unexpected_end,
)
from hostler.runtime.transport import TransportError
from hostler.telemetry.log import QUIET, Log

__all__ = ["Ending", "Scheduler"]

Ending = Literal["stopped", "lost"]

_SECOND = 1_000_000_000
_STALE_AFTER_S = 100.0  # bookmarks come about once a minute, and a silent watch is reopened before this
_REPORT = "please report it; a restarted scheduler continues where this one stopped"
_KEEPING = "keeping the lease"
_CARRYING = "carrying out a decision"
_LAST_WORDS_S = 5.0  # for events and conditions after a stop request


class Scheduler:
    """One scheduler on one cluster."""

    def __init__(
        self,
        client: KubeClient,
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
        log: Log = QUIET,
        meters: SchedulerMeters | None = None,
        on_synced: Callable[[Scheduler], None] = lambda scheduler: None,
    ) -> None:
        check_election(settings)
        self.settings = settings
        self.identity = identity
        self.meters = meters or SchedulerMeters()
        self.mandate: Mandate = NoElection()
        if settings.election.is_on:
            self.mandate = LeaseMandate(
                client,
                settings.election,
                identity,
                bind_timeout_s=settings.longest_bind_s,
                clock=clock,
                random=random,
            )
        self.cluster = WatchedCluster(
            {profile.scheduler_name: profile.policy for profile in settings.profiles},
            seed_annotations=settings.seed_annotations,
            gangs=settings.gangs,
        )
        extenders = Extenders(settings.extenders, calls) if settings.extenders and calls is not None else None
        policies = with_extenders(with_mixes(settings.policies), settings.extenders)
        engine = Engine(policies, clock.now(), settings.seed, rules=settings.queue, registry=registry)
        self.recorder = Recorder(engine, journal) if journal is not None else None
        self.core = Core(engine, self.recorder, timer, MixRenewal(settings.policies))
        self.loop = Loop(self.core, self.cluster, clock, executor, self.meters, log)
        self.breaker = Breaker(on_open=self._note_outage, on_close=self._note_answer)
        self.reflectors: dict[str, Reflector[Any]] = {
            kind.resource.kind + kind.resource.group: Reflector(
                client, kind.resource, self.loop.observe, clock=clock, random=random, is_optional=kind.is_optional
            )
            for kind in KINDS
        }
        self.is_synced = False
        self.led_at = clock.now()  # when the lease was acquired; before, when this scheduler was made
        self._on_synced = on_synced
        self._log = log
        self._clock = clock
        self._random = random
        self._executor = executor
        self._adopting = asyncio.Lock()
        # Its own breaker: if only statuses and events fail, pods are still bound.
        self.write_queue = WriteQueue(
            clock, most=32, is_busy=lambda: self.binder.backlog > 0, may_write=self._may_write, breaker=Breaker()
        )
        self._failures = TaskFailures()
        self.executors = self._make_executors(client, extenders)
        self.binder = self.executors.binder
        self._doubts = {name: asyncio.Event() for name in self.reflectors}
        self.comparer = Comparer(
            client, self.reflectors, self.loop, self.binder, executor, relist=self._relist, say=log.info
        )

    def _make_executors(self, client: KubeClient, extenders: Extenders | None) -> Executors:
        """Make the components that carry out actions."""
        limits, clock = self.settings.limits, self._clock
        reports = Reports(client, clock, self.write_queue, identity=self.identity, timeout_s=limits.call_timeout_s)
        statuses = Statuses(client, self.cluster, clock, self.write_queue, limits.bind_timeout_s)
        binder = Binder(
            client,
            self.cluster,
            clock,
            self.loop.add_fact,
            most=limits.max_in_flight,
            timeout_s=self.settings.longest_bind_s,
            may_write=self._may_write,
            breaker=self.breaker,
            on_bound=self._bound,
            on_failed=self.loop.report_failure,
            call=binds_through(extenders, client) if extenders is not None else None,
            on_room=self.loop.wake,
            on_task_end=self._failures.note,
            log=self._log,
        )
        evictor = Evictor(
            client,
            self.cluster,
            clock,
            self.loop.add_fact,
            binder,
            reports,
            may_evict=self._may_evict,
            timeout_s=limits.bind_timeout_s,
            on_task_end=self._failures.note,
            log=self._log,
        )
        preparer = VolumePreparer(self.cluster, client, limits.call_timeout_s, self._random)
        answer = answers_from(extenders, self.cluster, client, clock) if extenders is not None else None
        external_answers = ExternalAnswers(
            self.loop.add_fact,
            answer=answer,
            prepare=preparer,
            on_failed=self._report_unanswered,
            on_task_end=self._failures.note,
        )
        groups = GroupStatuses(client, self.cluster, clock, self.write_queue, limits.call_timeout_s)
        return Executors(binder, evictor, statuses, groups, reports, external_answers)

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> Ending:
        """Schedule until stopped or until the lease is lost; a bug that ends a task is raised."""
        stopping = start_task("waiting for the end", stop.wait())
        tasks = [stopping]
        ended: asyncio.Task[Any] = stopping
        is_settled = True
        try:
            if await finish_before(stopping, self.mandate.acquire()):
                ended = await self._lead(stopping, tasks)
                if ended.get_name() == _KEEPING and failure_of(ended) is None:
                    return "lost"
                is_settled = await self.binder.drain(3 * self.settings.longest_bind_s)
                await self.write_queue.drain(_LAST_WORDS_S)
        finally:
            await self._end(tasks)
        if is_settled:  # otherwise the next leader must wait until our last binds time out
            await self.mandate.release()
        if ended is not stopping:
            raise unexpected_end(ended, _REPORT)
        return "stopped"

    async def _lead(self, stopping: asyncio.Task[Any], tasks: list[asyncio.Task[Any]]) -> asyncio.Task[Any]:
        """Run all tasks; return the first one that ended, after decisions have stopped."""
        self.led_at = self._clock.now()
        self._log.info("leading, listing the cluster", identity=self.identity)
        tasks.append(start_task(_KEEPING, self.mandate.keep()))
        tasks += [
            start_task(f"following {name}", follow(one, self._doubts[name])) for name, one in self.reflectors.items()
        ]
        synced = start_task("listing", self._wait_until_synced())
        ended = await first_to_end(stopping, [*tasks, synced])
        if ended is not synced or failure_of(synced) is not None:
            synced.cancel()
            return ended
        turning = start_task("deciding", self._turn())
        tasks += [turning, start_task("comparing", self.comparer.run()), start_task(_CARRYING, self._failures.wait())]
        ended = await first_to_end(stopping, tasks)
        turning.cancel()
        return ended

    async def _turn(self) -> None:
        self.loop.open()
        self.is_synced = True
        self._on_synced(self)
        await self.loop.run(self.executors)

    async def adopt(self, settings: SchedulerSettings) -> Changes:
        """Switch to other settings; return what took effect, and what needs a restart.

        Policies that the engine rejects, with its present nodes, raise and change nothing.
        """
        async with self._adopting:  # one after the other: each starts from the result of the last
            old, changes = self.settings, changes_between(self.settings, settings)
            settings = msgspec.structs.replace(
                old, policies=settings.policies, profiles=settings.profiles, notes=settings.notes
            )
            if settings.policies != old.policies or settings.profiles != old.profiles:
                # Pods change their policies in between, while both old and new ones are known.
                wanted = await self._executor.run(lambda: self._change_policies(settings))
                self.loop.adopt({profile.scheduler_name: profile.policy for profile in settings.profiles})
                self.loop.add_fact(PolicyChanged(policies=wanted))
            self.settings = settings
            return changes

    def _change_policies(self, settings: SchedulerSettings) -> tuple[Policy, ...]:
        """Add the policies of other settings to those of the engine; return them."""
        engine = self.core.engine
        wanted = with_extenders(with_placed_mixes(settings.policies, engine.view), settings.extenders)
        names = {policy.name for policy in wanted}
        self.core.apply(PolicyChanged(policies=(*wanted, *(one for one in engine.policies if one.name not in names))))
        self.core.mixes.use(settings.policies)
        return wanted

    async def _wait_until_synced(self) -> None:
        for reflector in self.reflectors.values():
            await reflector.synced.wait()

    async def _end(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        for part in (self.binder, self.executors.evictor, self.executors.external_answers, self.write_queue):
            await part.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _relist(self, reflector: Reflector[Any]) -> None:
        """Make a reflector list again: its copy was found wrong."""
        self._doubts[reflector.resource.kind + reflector.resource.group].set()

    # -- rules -----------------------------------------------------------------------------------------------------

    def _may_write(self) -> bool:
        return self.mandate.is_held

    def _may_evict(self) -> bool:
        """Return whether our view is fresh enough to end running pods."""
        return self.mandate.is_held and not self.breaker.is_open and self.view_age_s() < _STALE_AFTER_S

    def view_age_s(self) -> float:
        """Return the age of our view of pods or nodes, whichever is older."""
        heard = min(self.reflectors[kind.kind + kind.group].heard_at for kind in (PODS, NODES))
        return (self._clock.now() - heard) / _SECOND

    def longest_stall_s(self) -> float:
        """Return the longest wait for the engine's thread in the last minute."""
        return self._executor.longest_stall_s()

    def _note_outage(self, why: str) -> None:
        self._log.warn("the API server does not respond; sending few calls", why=why)

    def _note_answer(self) -> None:
        self._log.info("the API server is back")
        self.loop.wake()

    def _report_unanswered(self, uid: str, why: str) -> None:
        """Report to a pod's owner that an external component, such as an extender, failed."""
        pod = self.cluster.pods.get(uid)
        if pod is not None and not pod.node:
            self.loop.report_failure(pod, why)

    def _bound(self, pod: PodView, node: str) -> None:
        self.executors.reports.report_scheduled(pod, node)
        self.executors.groups.report_scheduled(pod)
        self.meters.count_bound(pod.scheduler_name, self._clock.now(), self.loop.times.take(pod.uid))


def binds_through(extenders: Extenders, client: KubeClient) -> BindCall | None:
    """Return the bind call if extenders may bind; None if none of them does."""
    if not extenders.has_binder:
        return None

    async def bind(pod: PodView, node: str, annotations: Mapping[str, str], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):  # for the whole call: the next leader relies on it
                await send(pod, node, annotations, seconds)
        except TimeoutError:
            raise TransportError(f"it was not bound within {seconds:g} s", may_have_acted=True) from None

    async def send(pod: PodView, node: str, annotations: Mapping[str, str], seconds: float) -> None:
        body = await client.read(PODS.path(pod.namespace, pod.name))
        extender = extenders.binder_of(msgspec.json.decode(body, type=dict[str, Any]))
        if extender is None:
            await client.bind(pod.namespace, pod.name, pod.uid, node, annotations=annotations, timeout_s=seconds)
            return
        try:
            await extenders.bind(extender, pod.namespace, pod.name, pod.uid, node)
        except TransportError as error:
            # Not a failure of the API server, which would slow down all other binds.
            if error.may_have_acted:
                raise ApiError(500, "ExtenderFailed", error.message) from error
            raise UnavailableError(error.message) from error

    return bind
