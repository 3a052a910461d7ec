"""VMs that nobody ordered take room: it is known at their host, given to nobody, and named where it is in the way."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.agent.drivers.fake import FakeVm
from hostler.agent.messages import Order, Taken
from hostler.control.fleet.hosts.host_body import HostBody, host_alone, host_of, limit_of, read_body
from hostler.control.settings import ControlSettings
from hostler.control.store.backup.backup import backup
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms.state import Vm
from hostler.model import CPU, MEMORY, may_give
from tests.control.fleet.control_plane import GIB, SETTINGS, SIZE, ControlPlane, is_running, run_control_plane, spec
from tests.control.fleet.replicas_and_hosts import HostWithAgent
from tests.control.fleet.test_refusals import last_report, reports_of
from tests.control.fleet.test_restored import dutifully, hear, restored
from tests.wait import until

READY = HostRow(id="h", name="h", state="ready", agent="agent-1")


def settle_in(host: HostWithAgent, name: str = "guest", cpus: int = 6) -> None:
    """Let a VM run on a host that its agent did not make."""
    order = Order(vm=name, generation=1, power="running", cpu_count=cpus, memory_bytes=4 * GIB)
    host.driver.vms[name] = FakeVm(order=order, power="running", is_ours=False)


async def until_taken(control: ControlPlane, name: str, taken: dict[str, int]) -> None:
    async def look() -> bool:
        return dict(read_body(await control.row(name)).taken) == taken

    await until(look)


def is_refused(vm: Vm) -> bool:
    return vm.home is None and bool(vm.why)


async def test_what_they_take_is_given_to_no_vm_until_they_are_gone(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        settle_in(north)
        await until_taken(control, "north", {CPU: 6000, MEMORY: 4 * GIB})
        small = await control.create_running(spec(cpu="2"))
        large = await control.create(wanted=spec(cpu="4"))
        await control.until_vm(large, is_refused)
        assert north.power(small) == "running"
        del north.driver.vms["guest"]
        await until_taken(control, "north", {})
        await control.until_vm(large, is_running)


async def test_they_are_counted_at_a_host_that_registers_with_them(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await north.stop()
        settle_in(north)
        north.start()
        await until_taken(control, "north", {CPU: 6000, MEMORY: 4 * GIB})


async def test_a_vm_of_ours_that_its_agent_has_no_order_of_is_not_counted_twice(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        await until(lambda: bool(reports_of(north)))
        north.wire.is_cut = True
        taken = (Taken(vm=vm, cpu_millis=1000), Taken(vm="guest", cpu_millis=500, disk_bytes=GIB))
        report = msgspec.structs.replace(last_report(north), sequence=10_000, taken=taken)
        await control.leader.fleet.report(north.credential, report)
        assert dict(read_body(await control.row("north")).taken) == {CPU: 500, "storage": GIB}


async def test_a_vm_that_the_backup_does_not_know_is_counted_after_the_restore(url, tmp_path):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        known = await control.create_running()
        await asyncio.to_thread(backup, url, tmp_path / "saved")
        created = await control.create_running(spec(cpu="3", memory="2Gi"))
        await restored(control, tmp_path / "saved")
        hear(control, "north")
        await dutifully(control, known, is_running)
        await until_taken(control, "north", {CPU: 3000, MEMORY: 2 * GIB})
        assert north.power(created) == "running"


async def test_a_vm_that_is_blocked_by_them_names_them(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running(spec(cpu="4"))
        settle_in(north)
        await until_taken(control, "north", {CPU: 6000, MEMORY: 4 * GIB})
        north.driver.vms[vm].power = "stopped"  # it ended by itself, and is to run
        found = await control.until_vm(vm, lambda one: one.trouble is not None)
        assert found.trouble.code == "no_room"
        assert "VMs without an order here take cpu 6, memory 4Gi: guest" in found.trouble.message


def test_the_engine_gives_less_and_the_agent_counts_by_itself():
    body = HostBody(size=SIZE, own_reserve=((CPU, 1000), (MEMORY, 0)), taken=((CPU, 2000),))
    assert may_give(host_of(READY, body), CPU) == SIZE.cpu_millis - 3000
    assert may_give(host_alone(READY, body), CPU) == SIZE.cpu_millis - 1000
    limit = limit_of(READY, body, ControlSettings())
    assert limit is not None
    assert limit.cpu_millis == SIZE.cpu_millis - 1000


async def test_unordered_use_comes_on_top_of_the_reserve(url):
    settings = msgspec.structs.replace(SETTINGS, reserve=((CPU, 1000),))

    async with run_control_plane(url, settings=settings) as control:
        north = await control.join("north")
        settle_in(north)
        await until_taken(control, "north", {CPU: 6000, MEMORY: 4 * GIB})
        large = await control.create(wanted=spec(cpu="2"))
        await control.until_vm(large, is_refused)
        assert control.runs_on(await control.create_running(spec(cpu="1"))) == ["north"]
        assert (await control.vm(large)).home is None
