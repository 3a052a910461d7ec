"""VMs that nobody ordered take room: it is known at their host, given to nobody, and named where it is in the way."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.agent.drivers.fake import FakeVm
from hostler.agent.messages import Order, Taken
from hostler.control.fleet.hosts import HostBody, host_alone, host_of, limit_of, read_body
from hostler.control.settings import ControlSettings
from hostler.control.store.backup import backup
from hostler.control.store.hosts import HostRow
from hostler.control.vms.state import Vm
from hostler.model import CPU, MEMORY, may_give
from tests.control.fleet.scene import GIB, SETTINGS, SIZE, Scene, is_running, scene, spec
from tests.control.fleet.sides import HostSide
from tests.control.fleet.test_refusals import last_report, reports_of
from tests.control.fleet.test_restored import dutifully, hear, restored
from tests.wait import until

READY = HostRow(id="h", name="h", state="ready", agent="agent-1")


def settle_in(host: HostSide, name: str = "guest", cpus: int = 6) -> None:
    """Let a VM run on a host that its agent did not make."""
    order = Order(vm=name, generation=1, power="running", cpu_count=cpus, memory_bytes=4 * GIB)
    host.driver.vms[name] = FakeVm(order=order, power="running", is_ours=False)


async def until_taken(world: Scene, name: str, taken: dict[str, int]) -> None:
    async def look() -> bool:
        return dict(read_body(await world.row(name)).taken) == taken

    await until(look)


def is_refused(vm: Vm) -> bool:
    return vm.home is None and bool(vm.why)


def test_what_they_take_is_given_to_no_vm_until_they_are_gone(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            settle_in(north)
            await until_taken(world, "north", {CPU: 6000, MEMORY: 4 * GIB})
            small = await world.create_running(spec(cpu="2"))
            large = await world.create(wanted=spec(cpu="4"))
            await world.until_vm(large, is_refused)
            assert north.power(small) == "running"
            del north.driver.vms["guest"]
            await until_taken(world, "north", {})
            await world.until_vm(large, is_running)

    asyncio.run(story())


def test_they_are_counted_at_a_host_that_registers_with_them(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await north.stop()
            settle_in(north)
            north.start()
            await until_taken(world, "north", {CPU: 6000, MEMORY: 4 * GIB})

    asyncio.run(story())


def test_a_vm_of_ours_that_its_agent_has_no_order_of_is_not_counted_twice(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running()
            await until(lambda: bool(reports_of(north)))
            north.wire.is_cut = True
            taken = (Taken(vm=vm, cpu_millis=1000), Taken(vm="guest", cpu_millis=500, disk_bytes=GIB))
            report = msgspec.structs.replace(last_report(north), sequence=10_000, taken=taken)
            await world.leader.fleet.report(north.credential, report)
            assert dict(read_body(await world.row("north")).taken) == {CPU: 500, "storage": GIB}

    asyncio.run(story())


def test_a_vm_that_the_backup_does_not_know_is_counted_after_the_restore(url, tmp_path):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            known = await world.create_running()
            await asyncio.to_thread(backup, url, tmp_path / "saved")
            created = await world.create_running(spec(cpu="3", memory="2Gi"))
            await restored(world, tmp_path / "saved")
            hear(world, "north")
            await dutifully(world, known, is_running)
            await until_taken(world, "north", {CPU: 3000, MEMORY: 2 * GIB})
            assert north.power(created) == "running"

    asyncio.run(story())


def test_a_vm_that_is_blocked_by_them_names_them(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running(spec(cpu="4"))
            settle_in(north)
            await until_taken(world, "north", {CPU: 6000, MEMORY: 4 * GIB})
            north.driver.vms[vm].power = "stopped"  # it ended by itself, and is to run
            found = await world.until_vm(vm, lambda one: one.trouble is not None)
            assert found.trouble.code == "no_room"
            assert "VMs that nobody ordered here take cpu 6, memory 4Gi: guest" in found.trouble.message

    asyncio.run(story())


def test_the_engine_gives_less_and_the_agent_counts_by_itself():
    body = HostBody(size=SIZE, own_reserve=((CPU, 1000), (MEMORY, 0)), taken=((CPU, 2000),))
    assert may_give(host_of(READY, body), CPU) == SIZE.cpu_millis - 3000
    assert may_give(host_alone(READY, body), CPU) == SIZE.cpu_millis - 1000
    limit = limit_of(READY, body, ControlSettings())
    assert limit is not None
    assert limit.cpu_millis == SIZE.cpu_millis - 1000


def test_what_they_take_comes_on_top_of_what_the_service_holds_back_of_every_host(url):
    settings = msgspec.structs.replace(SETTINGS, reserve=((CPU, 1000),))

    async def story() -> None:
        async with scene(url, settings=settings) as world:
            north = await world.join("north")
            settle_in(north)
            await until_taken(world, "north", {CPU: 6000, MEMORY: 4 * GIB})
            large = await world.create(wanted=spec(cpu="2"))
            await world.until_vm(large, is_refused)
            assert world.runs_on(await world.create_running(spec(cpu="1"))) == ["north"]
            assert (await world.vm(large)).home is None

    asyncio.run(story())
