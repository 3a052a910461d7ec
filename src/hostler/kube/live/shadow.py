"""A shadow scheduler: follow a live cluster without a write, decide by a policy, and record both.

The policy's decisions are hypothetical, and what really happens are facts: a pod that another scheduler bound elsewhere
is where it is. A decision that does not happen is taken back after a while, so that it holds no room; evictions are
always taken back. Used by ``hostler journal record``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from hostler.engine import Engine, Registry
from hostler.engine.journals.journal import Recorder
from hostler.kube.api.client import KubeClient
from hostler.kube.api.reflector import ObjectUpdate, Reflector
from hostler.kube.api.resources import Resource
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.scheduler.core import Core
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.kube.settings import SchedulerSettings
from hostler.model import (
    Action,
    Answered,
    Ask,
    Bind,
    BindFailed,
    Event,
    Evict,
    EvictFailed,
    Guest,
    GuestLeft,
    Prepare,
    Prepared,
)
from hostler.model.vocabulary import plural
from hostler.queries import MixRenewal, with_mixes
from hostler.runtime.clock import NANOSECONDS, Clock
from hostler.runtime.tasks import end_tasks, run_parts, start_task

__all__ = ["Shadow", "ShadowCounts"]

_LIMIT = 1024
_ASSUMED_NS = 30 * NANOSECONDS
_ONLY_WATCHING = "a shadow scheduler only watches"


class ShadowCounts(msgspec.Struct):
    """Counts of observations and decisions so far."""

    facts: int = 0
    refused: int = 0
    decisions: int = 0
    agreed: int = 0  # pods bound by others to the node that the policy chose
    differed: int = 0
    unplaced: int = 0  # pods bound by others while the policy had no node for them, or needed evictions


class Shadow:
    """Follows a cluster and records it into files."""

    def __init__(
        self,
        client: KubeClient,
        settings: SchedulerSettings,
        files: JournalFiles,
        *,
        clock: Clock,
        random: random.Random,
        registry: Registry | None = None,
        checkpoint_s: float = 300.0,
        say: Callable[[str], None] = lambda text: None,
        on_open: Callable[[], None] = lambda: None,
    ) -> None:
        self.counts = ShadowCounts()
        self.cluster = WatchedCluster(
            {profile.scheduler_name: profile.policy for profile in settings.profiles},
            seed_annotations=settings.seed_annotations,
        )
        self._settings = settings
        self._files = files
        self._clock = clock
        self._registry = registry
        self._checkpoint_ns = int(checkpoint_s * NANOSECONDS)
        self._say = say
        self._on_open = on_open
        self._inbox: list[Event] = []
        self._wake = asyncio.Event()
        self._decided: dict[str, tuple[str, int]] = {}  # uid to host, and how long the decision is kept
        self._waiting: set[str] = set()  # uids of pods that are not bound yet
        self._recorder: Recorder | None = None
        self._saved_at = 0
        self._reflectors = [
            Reflector(client, kind.resource, self._observe, clock=clock, random=random, is_optional=kind.is_optional)
            for kind in KINDS
        ]

    async def run(self, stop: asyncio.Event) -> None:
        """Follow and record until stopped, or until recording fails."""
        reflecting = [start_task(f"following {one.resource.plural}", one.run()) for one in self._reflectors]
        try:
            await run_parts({"stop": stop.wait(), "recording": self._follow()})
        finally:
            await end_tasks(reflecting)

    async def _follow(self) -> None:
        telling = asyncio.ensure_future(self._log_problems())
        try:
            for reflector in self._reflectors:
                await reflector.synced.wait()
        finally:
            await end_tasks([telling])
        core = self._open()
        self._say(f"recording: {plural(len(self.cluster.hosts), 'node')}, {plural(len(self.cluster.pods), 'pod')}")
        self._on_open()
        while not self._files.is_stopped:
            self._wake.clear()
            due = self._turn(core)
            if self._wake.is_set() or self._inbox:
                await asyncio.sleep(0)
                continue
            wait_s = max(0.0, (due - self._clock.now()) / NANOSECONDS)
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _open(self) -> Core:
        now = self._clock.now()
        facts = self.cluster.open(now)
        settings = self._settings
        engine = Engine(
            with_mixes(settings.policies), now, settings.seed, rules=settings.queue, registry=self._registry
        )
        self._recorder = self._files.recorder = Recorder(engine, self._files.write)
        self._inbox = [*facts, *self._inbox]
        self._saved_at = now
        return Core(engine, self._recorder, mixes=MixRenewal(settings.policies))

    def _turn(self, core: Core) -> int:
        """Apply new facts, decide, and return when to come back."""
        now = self._clock.now()
        facts, self._inbox = [*self._inbox, *self.cluster.tick(now), *self._expire_decisions(now)], []
        self._compare(facts)
        turn = core.turn(facts, now, _LIMIT)
        self.counts.facts += len(facts)
        self.counts.refused += len(turn.refused)
        self._inbox += self._answers(turn.actions, now)
        if self._recorder is not None and now - self._saved_at >= self._checkpoint_ns:
            self._recorder.checkpoint()
            self._saved_at = now
        times = [turn.due, self.cluster.due(), *(until for _, until in self._decided.values())]
        return min((at for at in times if at is not None), default=now + 60 * NANOSECONDS)

    def _answers(self, actions: Sequence[Action], now: int) -> Iterable[Event]:
        """Answer the engine's requests: no extender is called, no volume is prepared."""
        for action in actions:
            match action:
                case Bind():
                    self.counts.decisions += 1
                    self._decided[action.uid] = (action.host, now + _ASSUMED_NS)
                case Evict():
                    yield EvictFailed(uid=action.uid, reason=_ONLY_WATCHING, at=now)
                case Ask():
                    yield Answered(uid=action.uid, ask=action.ask, error=_ONLY_WATCHING, at=now)
                case Prepare():
                    yield Prepared(uid=action.uid, host=action.host, at=now)

    def _expire_decisions(self, now: int) -> list[Event]:
        late = [(uid, host) for uid, (host, until) in self._decided.items() if until <= now]
        for uid, _ in late:
            del self._decided[uid]
        return [BindFailed(uid=uid, host=host, reason=_ONLY_WATCHING, at=now) for uid, host in late]

    def _compare(self, facts: Iterable[Event]) -> None:
        """Count whether others put pods where the policy would have."""
        for fact in facts:
            guest: Guest | None = getattr(fact, "guest", None)
            if isinstance(fact, GuestLeft):
                self._waiting.discard(fact.uid)
            if guest is None:
                continue
            if not guest.host:
                self._waiting.add(guest.uid)
                continue
            decided = self._decided.pop(guest.uid, None)
            if decided is not None:
                is_same = decided[0] == guest.host
                self.counts.agreed += is_same
                self.counts.differed += not is_same
            elif guest.uid in self._waiting:
                self.counts.unplaced += 1
            self._waiting.discard(guest.uid)

    def _observe(self, resource: Resource[Any], updates: Sequence[ObjectUpdate[Any]]) -> None:
        events = self.cluster.take(resource, updates, self._clock.now())
        if events:
            self._inbox += events
            self._wake.set()

    async def _log_problems(self) -> None:
        """Log what keeps the cluster from being listed and watched, each problem once."""
        told: set[str] = set()
        while True:
            await asyncio.sleep(1.0)
            for text in {one.last_error for one in self._reflectors if one.last_error} - told:
                told.add(text)
                self._say(text)
