"""A driver that does not answer when it lists its VMs: heartbeats go on, and the operator sees the reason."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.core.state import Record
from hostler.agent.drivers.fake import FakeDriver, FakeVm
from hostler.agent.messages import Disk
from tests.agent.fake_control_plane import FakeControlPlane
from tests.agent.test_process import AgentHost, simulate, vm
from tests.async_tests import run_with

LIMIT_S = 60.0  # the default of look_timeout_s
HANGS = "the driver fake has not listed its VMs for 60 s"
LOCAL_DISK = (Disk(size_bytes=2**30),)


class HangingDriver(FakeDriver):
    """Hangs in ``find`` while ``answers`` is cleared."""

    def __init__(self, host: str, *, answers: bool = True, slow: float = 0.0) -> None:
        super().__init__(host)
        self.answers = asyncio.Event()
        self.slow_s = slow
        self.looks = self.looks_at_once = self.most_looks_at_once = 0
        if answers:
            self.answers.set()

    async def find(self):
        self.looks += 1
        self.looks_at_once += 1
        self.most_looks_at_once = max(self.most_looks_at_once, self.looks_at_once)
        try:
            await asyncio.sleep(self.slow_s)
            await self.answers.wait()
        finally:
            self.looks_at_once -= 1
        return await super().find()


class HostThatHangs(AgentHost):
    """A host whose looks at its VMs may hang."""

    driver: HangingDriver

    def __init__(self, control_plane: FakeControlPlane, **options) -> None:
        super().__init__(control_plane)
        self.driver = HangingDriver("one", **options)


def unavailable(control_plane: FakeControlPlane) -> list[str]:
    return [one.why for one in control_plane.registrations[-1].unavailable]


@run_with(simulate)
async def test_hanging_look_is_reported_and_ends_by_itself():
    """The VM keeps its last known state, an order for it waits with a reason, and all goes on after the hang."""

    control_plane = FakeControlPlane()
    host = HostThatHangs(control_plane)
    control_plane.order(vm(disks=LOCAL_DISK))
    async with host.running():
        await asyncio.sleep(2)
        host.driver.answers.clear()
        await asyncio.sleep(LIMIT_S + 20)
        control_plane.order(vm(power="stopped", generation=2, disks=LOCAL_DISK))
        before = len(control_plane.reports)
        await asyncio.sleep(100)
        assert len(control_plane.reports) - before >= 18, "a heartbeat every 5 s"
        assert HANGS in unavailable(control_plane)[0]
        assert control_plane.vms["a"].state == "running"
        assert HANGS in control_plane.vms["a"].trouble.message
        assert len(control_plane.registrations) == 2, "the hang is news once"
        assert host.driver.most_looks_at_once == 1, "no second look beside one that hangs"
        assert sum(HANGS in line for line in host.lines) == 1
        host.driver.answers.set()
        await asyncio.sleep(20)
        assert unavailable(control_plane) == []
        assert (control_plane.vms["a"].state, control_plane.vms["a"].trouble) == ("stopped", None)
    assert host.lines[-1] == "the place of local disks is available again"


@run_with(simulate)
async def test_first_look_hangs_and_agent_reports_no_vm_as_absent():
    """A VM that an earlier agent made may run: until the first look the agent says nothing about any VM."""

    control_plane = FakeControlPlane()
    host = HostThatHangs(control_plane, answers=False)
    order = vm(disks=LOCAL_DISK)
    host.driver.vms["a"] = FakeVm(order=order, power="running")
    host.manifest.records["a"] = Record(vm="a", generation=1, made=order)
    control_plane.order(order)
    async with host.running():
        await asyncio.sleep(LIMIT_S + 60)
        (registration,) = control_plane.registrations
        assert not registration.is_inventory_known
        assert (registration.vms, registration.unknown, registration.taken) == ((), (), ())
        assert HANGS in unavailable(control_plane)[0]
        assert len(control_plane.reports) >= 10
        assert not any(report.vms or report.gone for report in control_plane.reports)
        host.driver.answers.set()
        await asyncio.sleep(10)
        assert control_plane.registrations[-1].is_inventory_known
        assert unavailable(control_plane) == []
        assert control_plane.vms["a"].state == "running"
    assert host.driver.log == []


@run_with(simulate)
async def test_look_slower_than_its_limit_still_counts():
    control_plane = FakeControlPlane()
    host = HostThatHangs(control_plane, slow=LIMIT_S + 10)
    control_plane.order(vm())
    async with host.running():
        await asyncio.sleep(3 * LIMIT_S)
        assert control_plane.vms["a"].state == "running"


@run_with(simulate)
async def test_agent_stops_while_a_look_hangs():
    control_plane = FakeControlPlane()
    host = HostThatHangs(control_plane)
    async with host.running():
        await asyncio.sleep(2)
        host.driver.answers.clear()
        await asyncio.sleep(LIMIT_S + 20)
    assert host.driver.looks_at_once == 0


@pytest.mark.parametrize("verb", ["open", "size"])
@run_with(simulate)
async def test_driver_that_hangs_at_start_is_logged(verb, monkeypatch):
    host = HostThatHangs(FakeControlPlane())
    hangs = asyncio.Event()
    monkeypatch.setattr(host.driver, verb, hangs.wait)
    task = asyncio.get_running_loop().create_task(host.agent().run(asyncio.Event()))
    await asyncio.sleep(LIMIT_S + 1)
    assert host.lines == ["the driver fake has not opened for 60 s: check this host's mounts and hypervisor"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
