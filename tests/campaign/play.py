"""Play one campaign in virtual time: the server, the outsiders, and schedulers that crash and restart.

Faults last for the first minute. Then the network heals, crashed schedulers restart, and the campaign waits until
nothing changes any more. Used by tests and by ``python -m tests.campaign``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from hostler.engine import find_policy
from hostler.kube.api.client import KubeClient
from hostler.kube.memory import ApiServer
from hostler.kube.memory.controllers import DisruptionController, Kubelet
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.kube.scheduler.main import Make, Terms
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.settings import ApiLimits, Election, GangRules, SchedulerProfile, SchedulerSettings
from hostler.model import PreemptionRules
from hostler.runtime.engine_thread import InlineExecutor
from tests.campaign.outsiders import Outsiders
from tests.campaign.plan import HORIZON_S, SCHEDULER, CampaignPlan, Crash, draw_plan
from tests.campaign.verdict import CampaignResult, judge
from tests.kube.memory.faults import FaultRates, FaultyTransport, Outage

__all__ = ["play", "settings_of"]

# Nothing but leases changed for so long: longer than a watch may be silent, and then a gang waits to be released.
_QUIET_S = 145.0
_PATIENCE_S = 900.0
_LIMIT_STEPS = 3_000_000


def play(seed: int, *, plan: CampaignPlan | None = None) -> CampaignResult:
    """Play the campaign of a seed and return its result."""
    drawn = plan or draw_plan(seed)
    return run_simulation(lambda: _Play(drawn).run(), seed, limit_steps=_LIMIT_STEPS, limit_s=4 * _PATIENCE_S)


def settings_of(plan: CampaignPlan) -> SchedulerSettings:
    """Return the settings of a campaign's schedulers."""
    rules = PreemptionRules(budgets="strict" if plan.strict_budgets else "best_effort", wait_ns=60_000_000_000)
    policy = msgspec.structs.replace(find_policy(plan.policy), preemption=rules)
    return SchedulerSettings(
        profiles=(SchedulerProfile(SCHEDULER, policy.name),),
        policies=(policy,),
        election=Election(),
        limits=ApiLimits(max_in_flight=4),
        gangs=GangRules(when_broken="release_after" if plan.releases_gangs else "keep", release_after_s=30.0),
        seed=plan.seed,
    )


def _rates(severity: float) -> FaultRates:
    """Return the fault rates; at full severity every third request fails."""
    return FaultRates(
        refused=0.03 * severity,
        lost=0.03 * severity,
        unanswered=0.04 * severity,
        delayed=0.05 * severity,
        doubled=0.03 * severity,
        conflicts=0.03 * severity,
        throttled=0.04 * severity,
        failed_before=0.03 * severity,
        failed_after=0.04 * severity,
        cut=0.03 * severity,
        stalled=0.01 * severity,
        late=0.1 * severity,
        expired=0.1 * severity,
        rewound=0.2 * severity,
        unmarked=0.3 * severity,
    )


class _Play:
    """One running campaign."""

    def __init__(self, plan: CampaignPlan) -> None:
        self._plan = plan
        self._clock = SimClock()
        self._server = ApiServer(self._clock)
        self._crashes: Iterator[Crash] = iter(plan.crashes)
        self._rng = random.Random(plan.seed + 2)
        self._is_healed = False
        self._outage = Outage()
        self._transports: list[FaultyTransport] = []
        self._processes: list[Terms] = []
        self._lives = 0

    async def run(self) -> CampaignResult:
        for node in self._plan.nodes:
            self._server.put(node)
        kubelet = Kubelet(self._server, end_s=10.0)
        DisruptionController(self._server)
        outsiders = Outsiders(self._server, self._plan, self._outage)
        acting = asyncio.ensure_future(outsiders.run())
        living = [asyncio.ensure_future(self._live(number)) for number in range(self._plan.replicas)]
        await asyncio.sleep(HORIZON_S)
        await acting
        self._heal()
        await self._until_quiet()
        verdict = judge(self._plan, self._server, self._leader(), outsiders, kubelet)
        for task in living:
            task.cancel()
        await asyncio.gather(*living, return_exceptions=True)
        return verdict

    async def _live(self, number: int) -> None:
        """Run one replica: schedule, wait for a lost lease, crash, and restart."""
        while True:
            crash = None if self._is_healed else next(self._crashes, None)
            transport = self._new_transport(crash)
            self._lives += 1
            identity = f"replica-{number}-life-{self._lives}"
            terms = Terms(
                self._maker(KubeClient(transport)), settings_of(self._plan), InlineExecutor(), identity=identity
            )
            self._processes.append(terms)
            running = asyncio.ensure_future(terms.run(asyncio.Event()))
            dying = asyncio.ensure_future(transport.killed.wait())
            try:
                await asyncio.wait({running, dying}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
            finally:
                transport.kill()  # a process that ends sends nothing more, whatever its tasks would still do
                self._processes.remove(terms)
                self._transports.remove(transport)
                for task in (running, dying):
                    task.cancel()
                await asyncio.gather(running, dying, return_exceptions=True)
                with suppress(asyncio.CancelledError):
                    await transport.close()
            await asyncio.sleep(crash.pause_s if crash is not None and not self._is_healed else 0.5)

    def _maker(self, client: KubeClient) -> Make:
        def make(settings: SchedulerSettings, identity: str) -> Scheduler:
            return Scheduler(
                client,
                settings,
                clock=self._clock,
                executor=InlineExecutor(),
                identity=identity,
                random=random.Random(self._rng.random()),
            )

        return make

    def _new_transport(self, crash: Crash | None) -> FaultyTransport:
        severity = 0.0 if self._is_healed else self._plan.severity
        transport = FaultyTransport(
            self._server.transport("hostler"),
            _rates(severity),
            random.Random(self._rng.random()),
            outage=self._outage,
        )
        if crash is not None:
            transport.crash_after(crash.after_requests)
        self._transports.append(transport)
        return transport

    def _heal(self) -> None:
        self._is_healed = True
        for transport in self._transports:
            transport.calm()

    async def _until_quiet(self) -> None:
        """Wait until nothing but leases has changed for a while."""
        waited = 0.0
        quiet_since, seen = 0.0, self._changes()
        while waited < _PATIENCE_S and waited - quiet_since < _QUIET_S:
            await asyncio.sleep(5.0)
            waited += 5.0
            now = self._changes()
            if now != seen or self._leader() is None:
                quiet_since, seen = waited, now

    def _leader(self) -> Scheduler | None:
        return next(
            (one.current for one in self._processes if one.current.is_synced and one.current.mandate.is_held), None
        )

    def _changes(self) -> int:
        return sum(change.kind.plural not in ("leases", "events") for change in self._server.history)
