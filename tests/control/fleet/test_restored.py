"""A database restored from an older backup, under agents that work on: they converge, and nothing runs twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.control.fleet import operator_actions
from hostler.control.store.backup.backup import backup, restore
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import Vm
from tests.control.fleet.control_plane import ControlPlane, is_running, is_stopped, run_control_plane, spec
from tests.control.postgres import nobody_connected
from tests.wait import until

LOCAL = [DiskSpec(size="1Gi")]


async def restored(control: ControlPlane, saved: Path) -> None:
    """Put a backup in the place of the database, while no service runs; agents go on meanwhile."""
    for host in control.hosts.values():
        host.wire.is_cut = True
    [replica] = control.replicas
    control.replicas.clear()
    await replica.stop()
    if not control.url.startswith("sqlite"):
        await asyncio.to_thread(nobody_connected, control.url)
    await asyncio.to_thread(restore, saved, control.url, is_forced=True)
    fresh = await control.add_replica()
    for host in control.hosts.values():
        host.wire.replica = fresh


def hear(control: ControlPlane, *names: str) -> None:
    for name in names:
        control.hosts[name].wire.is_cut = False


async def dutifully(control: ControlPlane, vm: str, is_so) -> Vm:
    """Do the leader's duties until something is so of a VM, which never runs twice meanwhile."""

    async def look() -> Vm | None:
        await control.duties()
        assert len(control.runs_on(vm)) <= 1
        found = await control.vm(vm)
        return found if is_so(found) else None

    return await until(look)


async def test_agents_converge_to_older_backup_and_leave_unknown_vms(url, tmp_path):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        changed = await control.create_running(spec(disks=LOCAL))
        deleted = await control.create_running()
        await asyncio.to_thread(backup, url, tmp_path / "saved")
        for wish in (desired_state.stop, desired_state.start, desired_state.restart, desired_state.stop):
            await control.wish(changed, wish)
            await control.until_vm(changed, is_stopped if wish is desired_state.stop else is_running)
        await control.wish(deleted, desired_state.delete)
        await control.until_vm(deleted, lambda one: one.is_gone)
        created = await control.create_running()
        await until(lambda: north.power(created) == "running")
        before = north.driver.vms[created].runs
        await restored(control, tmp_path / "saved")
        hear(control, "north")
        for vm in (changed, deleted):
            await dutifully(control, vm, is_running)
            assert north.power(vm) == "running"
        assert (north.power(created), north.driver.vms[created].runs) == ("running", before)
        await control.wish(changed, desired_state.stop)
        await control.until_vm(changed, is_stopped)


async def test_a_backup_may_be_restored_again(url, tmp_path):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        await asyncio.to_thread(backup, url, tmp_path / "saved")
        generations = []
        for _ in range(2):
            await restored(control, tmp_path / "saved")
            hear(control, "north")
            await dutifully(control, vm, is_running)
            await control.wish(vm, desired_state.stop)
            generations.append((await control.until_vm(vm, is_stopped)).generation)
            assert north.power(vm) == "stopped"
        assert generations[0] < generations[1]


async def test_a_vm_that_moved_after_the_backup_does_not_run_twice(either_url, tmp_path):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        vm = await control.create_running()
        south = await control.join("south")
        await asyncio.to_thread(backup, either_url, tmp_path / "saved")
        await control.wish(vm, desired_state.migrate)
        await control.until_vm(vm, lambda one: one.moving is None and is_running(one) and one.home.name == "south")
        await restored(control, tmp_path / "saved")
        hear(control, "north")
        await control.until_host("north", "ready")
        await until(lambda: registered(control, "north"))
        await control.duties()
        assert (await control.vm(vm)).home.name == "north"
        assert north.power(vm) == "absent", "nobody has said yet that south does not run it"
        hear(control, "south")
        assert (await dutifully(control, vm, is_running)).home.name == "north"
        assert control.runs_on(vm) == ["north"]
        await until(lambda: south.power(vm) == "absent")
        await control.check_agreement()


@pytest.mark.parametrize("has_arrived", [False, True], ids=["not yet arrived", "arrived since"])
async def test_a_vm_that_was_moving_when_the_backup_was_made_ends_up_on_one_host(url, tmp_path, has_arrived):
    async with run_control_plane(url) as control:
        await control.join("north", delays_s={"send": 1.0})
        vm = await control.create_running()
        await control.join("south")
        await control.wish(vm, desired_state.migrate)
        await control.until_vm(vm, lambda one: one.other is not None)
        await asyncio.to_thread(backup, url, tmp_path / "saved")
        if has_arrived:
            await control.until_vm(vm, lambda one: one.moving is None and is_running(one))
        await restored(control, tmp_path / "saved")
        hear(control, "north", "south")
        found = await dutifully(control, vm, lambda one: one.moving is None and is_running(one))
        assert control.runs_on(vm) == [found.home.name]
        await control.check_agreement()


async def test_host_takes_new_vms_only_after_registering_since_restore(either_url, tmp_path):
    async with run_control_plane(either_url) as control:
        for name in ("north", "south"):
            await control.join(name)
        await asyncio.to_thread(backup, either_url, tmp_path / "saved")
        await restored(control, tmp_path / "saved")
        vm = await control.create()
        waiting = await control.until_vm(vm, lambda one: bool(one.why))
        assert (waiting.home, "not taking VMs" in waiting.why) == (None, True), waiting.why
        hear(control, "south")
        assert (await control.until_vm(vm, is_running)).home.name == "south"


async def test_vm_moved_after_backup_does_not_run_twice_when_old_host_is_dead(either_url, tmp_path):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        vm = await control.create_running(spec(when_lost="restart"))
        for name in ("south", "west"):
            await control.join(name)
        await asyncio.to_thread(backup, either_url, tmp_path / "saved")
        await control.wish(vm, desired_state.migrate)
        moved = await control.until_vm(
            vm, lambda one: is_running(one) and one.moving is None and one.home.name != "north"
        )
        has_it = moved.home.name
        free = next(name for name in ("south", "west") if name != has_it)
        await restored(control, tmp_path / "saved")
        hear(control, free)
        await until(lambda: registered(control, free))
        await control.pass_silently(north, control.hosts[has_it])
        await control.until_host("north", "silent")
        await control.operate(operator_actions.confirm_dead, north, confirm="north")
        for _ in range(5):
            await control.duties()
        known = await control.vm(vm)
        assert (known.home.name, control.runs_on(vm)) == ("north", [has_it])
        hear(control, has_it)
        await dutifully(control, vm, lambda one: is_running(one) and one.home.name != "north")
        assert len(control.runs_on(vm)) == 1


async def registered(control: ControlPlane, name: str) -> bool:
    return bool((await control.row(name)).agent)
