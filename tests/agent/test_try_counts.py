"""Reports count what an agent tried, by outcome: each try once, however often a report is rejected."""

from __future__ import annotations

import asyncio
import random

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.link import Link
from hostler.agent.drivers.fake import FakeDriver, Fault
from hostler.agent.manifest import ManifestError, MemoryManifest
from hostler.agent.messages import Order, Tries
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from tests.agent.fake_control_plane import TOKEN, FakeControlPlane

LIFE_S = 300


class FullDiskManifest(MemoryManifest):
    """Cannot save what is changed for the first few times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def save(self, changed, forgotten):
        if changed and self.times:
            self.times -= 1
            raise ManifestError("the disk is full", hint="")
        await super().save(changed, forgotten)


def told(faults, *, refusals=0, manifest=None):
    """Let an agent live that is to run a VM; return the sum of what it told of its tries, and its reports."""
    control_plane = FakeControlPlane()

    async def scenario():
        stopping = asyncio.Event()
        control_plane.order(Order(vm="a", generation=1, power="running", memory_bytes=2**28))
        control_plane.refuse_reports = refusals
        agent = Agent(
            Link(control_plane, MemoryCredentials()),
            FakeDriver(faults=faults),
            manifest or MemoryManifest(),
            AgentSettings(name="one", look_s=10),
            boot="b",
            run_id="r",
            token=TOKEN,
            clock=SimClock().now,
            rng=random.Random(1),
        )
        task = asyncio.get_running_loop().create_task(agent.run(stopping))
        await asyncio.sleep(LIFE_S)
        stopping.set()
        await task

    run_simulation(scenario, 1)
    counts = [report.tries for report in control_plane.reports if report.tries is not None]
    kinds = Tries.__struct_fields__
    return Tries(**{kind: sum(getattr(one, kind) for one in counts) for kind in kinds}), control_plane.reports


def test_what_succeeds_is_reported_once_and_heartbeats_say_nothing_of_it():
    tries, reports = told([])
    assert tries == Tries(done=2), "it was created and started"
    assert reports[-1].tries is None


def test_failures_are_told_by_kind():
    faults = [Fault(verb="create", times=2), Fault(kind="blocked", verb="start", times=3)]
    assert told(faults)[0] == Tries(done=2, transient=2, blocked=3)
    assert told([Fault(kind="permanent", verb="create")])[0] == Tries(permanent=1)


def test_what_a_refused_report_told_is_reported_again():
    assert told([Fault(kind="blocked", verb="start", times=3)], refusals=3)[0] == Tries(done=2, blocked=3)


def test_action_not_begun_for_lack_of_record_counts_as_failed_try():
    tries, _ = told([], manifest=FullDiskManifest(4))
    assert tries.done == 2
    assert tries.transient > 0
