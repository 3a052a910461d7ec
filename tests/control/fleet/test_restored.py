"""A database restored from an older backup, under agents that work on: they converge, and nothing runs twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.control.fleet import operating
from hostler.control.store.backup import backup, restore
from hostler.control.vms import wishes
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import Vm
from tests.control.fleet.scene import Scene, is_running, is_stopped, scene, spec
from tests.control.postgres import nobody_connected
from tests.wait import until

LOCAL = [DiskSpec(size="1Gi")]


async def restored(world: Scene, saved: Path) -> None:
    """Put a backup in the place of the database, while no service runs; agents go on meanwhile."""
    for host in world.hosts.values():
        host.wire.is_cut = True
    [replica] = world.replicas
    world.replicas.clear()
    await replica.stop()
    if not world.url.startswith("sqlite"):
        await asyncio.to_thread(nobody_connected, world.url)
    await asyncio.to_thread(restore, saved, world.url, is_forced=True)
    fresh = await world.add_replica()
    for host in world.hosts.values():
        host.wire.replica = fresh


def hear(world: Scene, *names: str) -> None:
    for name in names:
        world.hosts[name].wire.is_cut = False


async def dutifully(world: Scene, vm: str, is_so) -> Vm:
    """Do the leader's duties until something is so of a VM, which never runs twice meanwhile."""

    async def look() -> Vm | None:
        await world.duties()
        assert len(world.runs_on(vm)) <= 1
        found = await world.vm(vm)
        return found if is_so(found) else None

    return await until(look)


def test_agents_converge_to_an_older_backup_and_leave_alone_what_it_does_not_know(url, tmp_path):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            changed = await world.create_running(spec(disks=LOCAL))
            deleted = await world.create_running()
            await asyncio.to_thread(backup, url, tmp_path / "saved")
            for wish in (wishes.stop, wishes.start, wishes.restart, wishes.stop):
                await world.wish(changed, wish)
                await world.until_vm(changed, is_stopped if wish is wishes.stop else is_running)
            await world.wish(deleted, wishes.delete)
            await world.until_vm(deleted, lambda one: one.is_gone)
            created = await world.create_running()
            await until(lambda: north.power(created) == "running")
            before = north.driver.vms[created].runs
            await restored(world, tmp_path / "saved")
            hear(world, "north")
            for vm in (changed, deleted):
                await dutifully(world, vm, is_running)
                assert north.power(vm) == "running"
            assert (north.power(created), north.driver.vms[created].runs) == ("running", before)
            await world.wish(changed, wishes.stop)
            await world.until_vm(changed, is_stopped)

    asyncio.run(story())


def test_a_backup_may_be_restored_again(url, tmp_path):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running()
            await asyncio.to_thread(backup, url, tmp_path / "saved")
            generations = []
            for _ in range(2):
                await restored(world, tmp_path / "saved")
                hear(world, "north")
                await dutifully(world, vm, is_running)
                await world.wish(vm, wishes.stop)
                generations.append((await world.until_vm(vm, is_stopped)).generation)
                assert north.power(vm) == "stopped"
            assert generations[0] < generations[1]

    asyncio.run(story())


def test_a_vm_that_moved_after_the_backup_does_not_run_twice(either_url, tmp_path):
    async def story() -> None:
        async with scene(either_url) as world:
            north = await world.join("north")
            vm = await world.create_running()
            south = await world.join("south")
            await asyncio.to_thread(backup, either_url, tmp_path / "saved")
            await world.wish(vm, wishes.migrate)
            await world.until_vm(vm, lambda one: one.moving is None and is_running(one) and one.home.name == "south")
            await restored(world, tmp_path / "saved")
            hear(world, "north")
            await world.until_host("north", "ready")
            await until(lambda: registered(world, "north"))
            await world.duties()
            assert (await world.vm(vm)).home.name == "north"
            assert north.power(vm) == "absent", "nobody has said yet that south does not run it"
            hear(world, "south")
            assert (await dutifully(world, vm, is_running)).home.name == "north"
            assert world.runs_on(vm) == ["north"]
            await until(lambda: south.power(vm) == "absent")
            await world.check_agreement()

    asyncio.run(story())


@pytest.mark.parametrize("has_arrived", [False, True], ids=["not yet arrived", "arrived since"])
def test_a_vm_that_was_moving_when_the_backup_was_made_ends_up_on_one_host(url, tmp_path, has_arrived):
    async def story() -> None:
        async with scene(url) as world:
            await world.join("north", delays_s={"send": 1.0})
            vm = await world.create_running()
            await world.join("south")
            await world.wish(vm, wishes.migrate)
            await world.until_vm(vm, lambda one: one.other is not None)
            await asyncio.to_thread(backup, url, tmp_path / "saved")
            if has_arrived:
                await world.until_vm(vm, lambda one: one.moving is None and is_running(one))
            await restored(world, tmp_path / "saved")
            hear(world, "north", "south")
            found = await dutifully(world, vm, lambda one: one.moving is None and is_running(one))
            assert world.runs_on(vm) == [found.home.name]
            await world.check_agreement()

    asyncio.run(story())


def test_a_host_takes_new_vms_only_after_it_has_registered_since_the_restore(either_url, tmp_path):
    async def story() -> None:
        async with scene(either_url) as world:
            for name in ("north", "south"):
                await world.join(name)
            await asyncio.to_thread(backup, either_url, tmp_path / "saved")
            await restored(world, tmp_path / "saved")
            vm = await world.create()
            waiting = await world.until_vm(vm, lambda one: bool(one.why))
            assert (waiting.home, "not taking VMs" in waiting.why) == (None, True), waiting.why
            hear(world, "south")
            assert (await world.until_vm(vm, is_running)).home.name == "south"

    asyncio.run(story())


def test_a_vm_that_moved_after_the_backup_does_not_run_twice_when_its_host_of_then_is_confirmed_dead(
    either_url, tmp_path
):
    async def story() -> None:
        async with scene(either_url) as world:
            north = await world.join("north")
            vm = await world.create_running(spec(when_lost="restart"))
            for name in ("south", "west"):
                await world.join(name)
            await asyncio.to_thread(backup, either_url, tmp_path / "saved")
            await world.wish(vm, wishes.migrate)
            moved = await world.until_vm(
                vm, lambda one: is_running(one) and one.moving is None and one.home.name != "north"
            )
            has_it = moved.home.name
            free = next(name for name in ("south", "west") if name != has_it)
            await restored(world, tmp_path / "saved")
            hear(world, free)
            await until(lambda: registered(world, free))
            await world.pass_silently(north, world.hosts[has_it])
            await world.until_host("north", "silent")
            await world.operate(operating.confirm_dead, north, confirm="north")
            for _ in range(5):
                await world.duties()
            known = await world.vm(vm)
            assert (known.home.name, world.runs_on(vm)) == ("north", [has_it])
            hear(world, has_it)
            await dutifully(world, vm, lambda one: is_running(one) and one.home.name != "north")
            assert len(world.runs_on(vm)) == 1

    asyncio.run(story())


async def registered(world: Scene, name: str) -> bool:
    return bool((await world.row(name)).agent)
