"""A driver that does not answer when it lists its VMs: heartbeats go on, and the operator sees the reason."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.drivers.fake import FakeDriver, FakeVm
from hostler.agent.messages import Disk
from hostler.agent.state import Record
from tests.agent.plane import Plane
from tests.agent.test_process import Host, simulate, vm

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


class HostThatHangs(Host):
    """A host whose looks at its VMs may hang."""

    driver: HangingDriver

    def __init__(self, plane: Plane, **options) -> None:
        super().__init__(plane)
        self.driver = HangingDriver("one", **options)


def unavailable(plane: Plane) -> list[str]:
    return [one.why for one in plane.registrations[-1].unavailable]


def test_hanging_look_is_reported_and_ends_by_itself():
    """The VM keeps its last known state, an order for it waits with a reason, and all goes on after the hang."""

    async def scenario():
        plane = Plane()
        host = HostThatHangs(plane)
        plane.order(vm(disks=LOCAL_DISK))
        async with host.running():
            await asyncio.sleep(2)
            host.driver.answers.clear()
            await asyncio.sleep(LIMIT_S + 20)
            plane.order(vm(power="stopped", generation=2, disks=LOCAL_DISK))
            before = len(plane.reports)
            await asyncio.sleep(100)
            assert len(plane.reports) - before >= 18, "a heartbeat every 5 s"
            assert HANGS in unavailable(plane)[0]
            assert plane.vms["a"].state == "running"
            assert HANGS in plane.vms["a"].trouble.message
            assert len(plane.registrations) == 2, "the hang is news once"
            assert host.driver.most_looks_at_once == 1, "no second look beside one that hangs"
            assert sum(HANGS in line for line in host.lines) == 1
            host.driver.answers.set()
            await asyncio.sleep(20)
            assert unavailable(plane) == []
            assert (plane.vms["a"].state, plane.vms["a"].trouble) == ("stopped", None)
        assert host.lines[-1] == "the place of local disks is available again"

    simulate(scenario)


def test_first_look_hangs_and_agent_reports_no_vm_as_absent():
    """A VM that an earlier agent made may run: until the first look the agent says nothing about any VM."""

    async def scenario():
        plane = Plane()
        host = HostThatHangs(plane, answers=False)
        order = vm(disks=LOCAL_DISK)
        host.driver.vms["a"] = FakeVm(order=order, power="running")
        host.manifest.records["a"] = Record(vm="a", generation=1, made=order)
        plane.order(order)
        async with host.running():
            await asyncio.sleep(LIMIT_S + 60)
            (registration,) = plane.registrations
            assert not registration.is_inventory_known
            assert (registration.vms, registration.unknown, registration.taken) == ((), (), ())
            assert HANGS in unavailable(plane)[0]
            assert len(plane.reports) >= 10
            assert not any(report.vms or report.gone for report in plane.reports)
            host.driver.answers.set()
            await asyncio.sleep(10)
            assert plane.registrations[-1].is_inventory_known
            assert unavailable(plane) == []
            assert plane.vms["a"].state == "running"
        assert host.driver.log == []

    simulate(scenario)


def test_look_slower_than_its_limit_still_counts():
    async def scenario():
        plane = Plane()
        host = HostThatHangs(plane, slow=LIMIT_S + 10)
        plane.order(vm())
        async with host.running():
            await asyncio.sleep(3 * LIMIT_S)
            assert plane.vms["a"].state == "running"

    simulate(scenario)


def test_agent_stops_while_a_look_hangs():
    async def scenario():
        plane = Plane()
        host = HostThatHangs(plane)
        async with host.running():
            await asyncio.sleep(2)
            host.driver.answers.clear()
            await asyncio.sleep(LIMIT_S + 20)
        assert host.driver.looks_at_once == 0

    simulate(scenario)


@pytest.mark.parametrize("verb", ["open", "size"])
def test_driver_that_hangs_at_start_is_logged(verb, monkeypatch):
    async def scenario():
        host = HostThatHangs(Plane())
        hangs = asyncio.Event()
        monkeypatch.setattr(host.driver, verb, hangs.wait)
        task = asyncio.get_running_loop().create_task(host.agent().run(asyncio.Event()))
        await asyncio.sleep(LIMIT_S + 1)
        assert host.lines == ["the driver fake has not opened for 60 s: check this host's mounts and hypervisor"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(scenario)
