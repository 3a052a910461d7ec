"""The agent's hands: records before deeds, hands off when records are lost, and failures that end nothing."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.link import Link
from hostler.agent.core.decisions import first_state
from hostler.agent.core.reports import ReportContent, difference
from hostler.agent.core.state import Action, DriverVerb
from hostler.agent.driver import BlockedError, DriverError, PermanentError, UnsupportedError
from hostler.agent.drivers.fake import FakeDriver
from hostler.agent.manifest import FileManifest, ManifestError, MemoryManifest
from hostler.agent.messages import Departed, HostSize, Order, VmReport
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.agent.worker import perform, trouble_of
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from tests.agent.fake_control_plane import TOKEN, FakeControlPlane
from tests.async_tests import run_with
from tests.wait import until

ORDER = Order(vm="a", generation=1, power="running", memory_bytes=2**28)
ACTION = Action(verb=DriverVerb.START, vm="a", order=ORDER)


class WatchedManifest(MemoryManifest):
    """Writes down, at every save, what the driver had done by then; fails when told to."""

    def __init__(self, driver):
        super().__init__()
        self.driver = driver
        self.saves = []
        self.is_full = False

    async def save(self, records, forgotten):
        if self.is_full:
            raise ManifestError("the disk is full", hint="make room")
        records = list(records)
        self.saves.append((list(self.driver.log), records))
        await super().save(records, forgotten)


@asynccontextmanager
async def living(control_plane, driver, manifest, clock):
    stopping = asyncio.Event()
    agent = Agent(
        Link(control_plane, MemoryCredentials()),
        driver,
        manifest,
        AgentSettings(name="one"),
        boot="b",
        run_id="r",
        token=TOKEN,
        clock=clock,
        rng=random.Random(1),
    )
    task = asyncio.get_running_loop().create_task(agent.run(stopping))
    try:
        yield
    finally:
        stopping.set()
        await task


async def live(control_plane, driver, manifest, seconds, clock):
    async with living(control_plane, driver, manifest, clock):
        await asyncio.sleep(seconds)


@run_with(run_simulation, 1)
async def test_a_record_is_safe_before_the_driver_acts():
    control_plane, driver = FakeControlPlane(), FakeDriver()
    manifest = WatchedManifest(driver)
    control_plane.order(ORDER)
    await live(control_plane, driver, manifest, 2, SimClock().now)
    log, records = manifest.saves[0]
    assert log == []
    assert [record.vm for record in records] == ["a"]


@run_with(run_simulation, 1)
async def test_agent_does_nothing_while_records_cannot_be_saved():
    control_plane, driver = FakeControlPlane(), FakeDriver()
    manifest = WatchedManifest(driver)
    manifest.is_full = True
    control_plane.order(ORDER)
    task = asyncio.get_running_loop().create_task(live(control_plane, driver, manifest, 60, SimClock().now))
    await asyncio.sleep(10)
    assert driver.log == []
    assert control_plane.vms["a"].trouble.code == "manifest"
    manifest.is_full = False
    await task
    assert driver.vms["a"].power == "running"
    assert control_plane.vms["a"].trouble is None


async def test_with_an_unreadable_record_the_agent_tells_and_touches_nothing(tmp_path):
    control_plane, driver = FakeControlPlane(), FakeDriver()
    await driver.create(Order(vm="b", generation=1, power="running"))
    (tmp_path / "b.record").write_bytes(b"?")
    control_plane.order(ORDER)
    control_plane.order(Order(vm="b", generation=2, power="absent"))
    loop = asyncio.get_running_loop()
    async with living(control_plane, driver, FileManifest(tmp_path), lambda: int(loop.time() * 1e9)):
        await until(lambda: any(report.orders == control_plane.version for report in control_plane.reports))
    assert driver.log == [("create", "b")]
    assert not control_plane.registrations[0].is_inventory_known


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (DriverError("x"), "transient", "driver_failed"),
        (PermanentError("x"), "permanent", "driver_refused"),
        (UnsupportedError("x"), "permanent", "unsupported_by_driver"),
        (BlockedError("x"), "blocked", "driver_blocked"),
        (TimeoutError(), "transient", "driver_timeout"),
        (ZeroDivisionError("x"), "transient", "driver_broke"),
    ],
)
def test_failures_are_classed(error, kind, code):
    trouble = trouble_of(error, ACTION)
    assert (trouble.kind, trouble.code) == (kind, code)


class BrokenDriver(FakeDriver):
    async def start(self, vm):
        raise KeyError(vm)


def test_a_driver_that_breaks_does_not_break_the_agent():
    outcome = asyncio.run(perform(BrokenDriver(), ACTION, grace_s=0.0))
    assert outcome.trouble.code == "driver_broke"


def test_a_heartbeat_says_nothing_but_that_we_are_there():
    content = ReportContent(version=3, unknown=("x",))
    report = difference(content, content, boot="b", agent="a", epoch=1, sequence=2)
    assert (report.vms, report.gone, report.unknown) == ((), (), None)
    assert (report.orders, report.sequence) == (3, 2)


def departure(told: ReportContent, now: ReportContent):
    report = difference(told, now, boot="b", agent="a", epoch=1, sequence=2)
    return report.gone, report.departed


def test_a_vm_that_is_gone_is_reported_once_for_each_order_that_removed_it():
    first, second = (ReportContent(gone=(Departed(vm="a", generation=number),)) for number in (5, 8))
    running = ReportContent(vms={"a": VmReport(vm="a", state="running", generation=4)})
    assert departure(running, first) == (("a",), first.gone)
    assert departure(ReportContent(), first) == (("a",), first.gone)
    assert departure(first, first) == ((), ())
    assert departure(first, second) == (("a",), second.gone)


def test_a_vm_that_is_forgotten_goes_with_the_last_that_was_told_of_it():
    running = ReportContent(vms={"a": VmReport(vm="a", state="running", generation=4)})
    assert departure(running, ReportContent()) == (("a",), (Departed(vm="a", generation=4),))


def test_a_new_agent_knows_nothing_and_so_does_nothing():
    assert not first_state(HostSize(cpu_millis=1, memory_bytes=1), ()).has_looked
