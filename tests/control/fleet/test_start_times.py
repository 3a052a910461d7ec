"""Since when VMs run, by the log: equal VMs that ran for the longest time are spared, also after every restart."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import HostSize
from hostler.control.books import ledger
from hostler.control.store.rows import vms
from hostler.control.vms import desired_state
from hostler.control.vms.state import Vm
from tests.control.fleet.control_plane import GIB, ControlPlane, is_running, is_stopped, run_control_plane, spec
from tests.control.fleet.replicas_and_hosts import FleetReplica
from tests.wait import until

FULL = HostSize(cpu_millis=4000, memory_bytes=8 * GIB, disk_bytes=100 * GIB)
HALF = spec(cpu="2")


async def started(control: ControlPlane, vm: str, replica: FleetReplica | None = None) -> int:
    """Return since when a VM runs, as the engine of a replica knows it; 0 while it does not run."""
    run = (await control.vm(vm)).run
    books = (replica or control.leader).books

    def look(engine) -> int:
        return engine.view.guest(run.uid).started if run is not None and run.uid in engine.view.records else 0

    return (await books.ask(look))[0]


async def has_started(control: ControlPlane, vm: str, replica: FleetReplica | None = None) -> int:
    """Wait until the engine knows since when a VM runs."""
    return await until(lambda: started(control, vm, replica))


async def until_moved(control: ControlPlane, vm: str) -> Vm:
    await control.wish(vm, desired_state.migrate)
    return await control.until_vm(vm, lambda one: is_running(one) and one.moving is None)


async def restarted(control: ControlPlane, vm: str) -> None:
    await control.wish(vm, desired_state.stop)
    await control.until_vm(vm, is_stopped)
    await control.wish(vm, desired_state.start)
    await control.until_vm(vm, is_running)


@pytest.mark.parametrize("renewed", [0, 1])
async def test_longest_running_of_equal_vms_is_spared(url, renewed):
    """The one that was stopped and started again is the younger one, whichever was created first."""
    async with run_control_plane(url) as control:
        await control.join("north", size=FULL)
        made = [await control.create_running(HALF), await control.create_running(HALF)]
        victim, spared = made[renewed], made[1 - renewed]
        await restarted(control, victim)
        await has_started(control, victim)
        high = await control.create(wanted=spec(cpu="2", priority=10))
        await control.until_vm(high, is_running)
        assert control.runs_on(spared) == ["north"]
        assert control.runs_on(victim) == []


async def test_longest_running_is_spared_after_restart_of_the_control_plane(url):
    async with run_control_plane(url) as control:
        await control.join("north", size=FULL)
        old, young = await control.create_running(HALF), await control.create_running(HALF)
        await restarted(control, old)  # now the second one runs for the longest time
        before = [await has_started(control, old), await has_started(control, young)]
        assert before == sorted(before, reverse=True)
        await control.restart(control.settings)
        assert [await has_started(control, vm) for vm in (old, young)] == before
        high = await control.create(wanted=spec(cpu="2", priority=10))
        await control.until_vm(high, is_running)
        assert (control.runs_on(old), control.runs_on(young)) == ([], ["north"])


async def test_every_replica_knows_the_same_start_times(shared_url):
    async with run_control_plane(shared_url, replicas=2) as control:
        await control.join("north", size=FULL)
        vm = await control.create_running(HALF)
        times = {await has_started(control, vm, replica) for replica in control.replicas}
        assert times == {(await control.vm(vm)).runs_since_ns}


async def test_migration_restart_and_pause_keep_the_start_time(url):
    async with run_control_plane(url) as control:
        await control.join("north", size=FULL)
        vm = await control.create_running(HALF)
        before = await has_started(control, vm)
        await control.join("south", size=FULL)
        moved = await until_moved(control, vm)
        assert moved.home.name == "south"
        assert await has_started(control, vm) == before
        await control.wish(vm, desired_state.restart)
        await control.until_vm(vm, is_running)
        await control.wish(vm, desired_state.pause)
        await control.until_vm(vm, lambda one: one.reported == "paused")
        assert await has_started(control, vm) == before


@pytest.mark.parametrize("reserve", [False, True])
async def test_stop_and_start_renew_the_start_time(url, reserve):
    async with run_control_plane(url) as control:
        await control.join("north", size=FULL)
        vm = await control.create_running(spec(cpu="2", reserve=reserve))
        before = await has_started(control, vm)
        await control.wish(vm, desired_state.stop)
        await control.until_vm(vm, is_stopped)
        await until(lambda: _is_forgotten(control, vm))
        await control.wish(vm, desired_state.start)
        await control.until_vm(vm, is_running)
        assert await has_started(control, vm) > before


async def _is_forgotten(control: ControlPlane, vm: str) -> bool:
    return await started(control, vm) == 0


async def test_vm_of_an_older_release_gets_its_time_from_the_next_report(url):
    async with run_control_plane(url) as control:
        north = await control.join("north", size=FULL)
        vm = await control.create_running(HALF)
        await has_started(control, vm)

        def forget(connection) -> None:
            stored = ledger.load(connection, vm)
            old = msgspec.structs.replace(stored.vm, runs_since_ns=0)
            vms.save_many(connection, [msgspec.structs.replace(stored.row, status=msgspec.json.encode(old))])

        await control.database.write(forget)
        await north.stop()
        north.start()
        await control.until_vm(vm, lambda one: one.runs_since_ns > 0)
