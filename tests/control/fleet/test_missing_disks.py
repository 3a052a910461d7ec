"""Disks that disappear while their host is heard: the VM is lost; storage that is out of reach loses none."""

from __future__ import annotations

from hostler.agent.messages import REPORT_PATH
from hostler.control.fleet.hosts.host_body import host_of, read_body
from hostler.control.fleet.hosts.host_problems import describe_problems
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import Vm, state_of
from tests.control.fleet.control_plane import is_running, is_stopped, run_control_plane, spec
from tests.control.fleet.test_disks_gone import LOCAL, SHARED, creations, events, is_lost
from tests.wait import until


def has_trouble(code: str):
    return lambda vm: vm.trouble is not None and vm.trouble.code == code


async def test_vm_whose_folder_disappears_is_lost_and_not_made_again(either_url):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        vm, other = await control.create_running(LOCAL), await control.create_running(LOCAL)
        north.driver.vms.pop(vm)
        lost = await control.until_vm(vm, is_lost)
        assert (lost.home, lost.trouble.message) == (None, "its disk is no longer on north")
        assert creations(north) == [vm, other]
        assert is_running(await control.vm(other))
        assert "its disk is no longer on north" in await events(control)
        await control.check_agreement()
        await control.wish(vm, desired_state.start)
        await control.until_vm(vm, is_running)
        assert creations(north) == [vm, other, vm], "its owner wanted a new one"
        await control.check_agreement()


async def test_unmounted_storage_loses_no_vm_and_recovers(url):
    """The host says what is wrong and takes no VMs; its VMs keep their state. Mounted again, all goes on."""

    async with run_control_plane(url) as control:
        north = await control.join("north")
        running, resting, bare = [await control.create_running(wanted) for wanted in (LOCAL, LOCAL, spec())]
        await control.wish(resting, desired_state.stop)
        await control.until_vm(resting, is_stopped)
        north.driver.unmounted[""] = "nothing is mounted at /vms"
        await control.until_vm(running, has_trouble("storage_unavailable"))
        await control.until_vm(resting, has_trouble("storage_unavailable"))
        row = await control.row("north")
        assert "nothing is mounted at /vms" in describe_problems(row, read_body(row))
        assert host_of(row, read_body(row)).cordoned
        assert [state_of(await control.vm(vm)) for vm in (running, resting)] == ["running", "stopped"]
        await north.stop()
        north.wire.answers.clear()
        north.start()
        await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
        waiting = await control.create(wanted=LOCAL)
        await control.until_vm(waiting, lambda vm: bool(vm.why))
        assert [state_of(await control.vm(vm)) for vm in (running, resting)] == ["running", "stopped"]
        north.driver.unmounted.clear()
        for vm in (running, bare, waiting):
            await control.until_vm(vm, lambda vm: is_running(vm) and vm.trouble is None)
        await control.until_vm(resting, lambda vm: is_stopped(vm) and vm.trouble is None)
        assert creations(north) == [running, resting, bare, waiting]
        told = await events(control)
        assert "the place of its local disks is unavailable" in told
        assert "the place of its local disks is available again" in told
        assert "lost" not in told
        await control.check_agreement()


async def test_unmounted_storage_and_lost_records_lose_no_vm(url):
    """An agent that knows nothing and reaches nothing says nothing about what is on its host."""

    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running(LOCAL)
        await north.stop()
        north.manifest.records.clear()
        north.driver.vms[vm].power = "stopped"
        north.driver.unmounted[""] = "nothing is mounted at /vms"
        north.start()
        await control.until_vm(vm, has_trouble("storage_unavailable"))
        assert not is_lost(await control.vm(vm))
        north.driver.unmounted.clear()
        await control.until_vm(vm, lambda vm: is_running(vm) and vm.trouble is None)
        assert creations(north) == [vm]


async def test_missing_shared_disk_blocks_the_vm_and_does_not_lose_it(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running(SHARED)
        assert (await control.vm(vm)).has_disks
        north.driver.vms.pop(vm)
        claimed = control.wires.disks.pop(vm)
        await control.until_vm(vm, has_trouble("disk_missing"))
        assert not is_lost(await control.vm(vm))
        control.wires.disks[vm] = claimed
        await control.until_vm(vm, lambda vm: is_running(vm) and vm.trouble is None)


async def test_vm_that_runs_without_its_record_says_so(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running(LOCAL)
        north.driver.strays.add(vm)
        stray = await control.until_vm(vm, has_trouble("record_missing"))
        assert is_running(stray)
        await control.wish(vm, desired_state.delete)
        await control.until_vm(vm, lambda vm: vm.is_gone)


async def test_disk_of_a_vm_that_was_never_made_is_made(url):
    async with run_control_plane(url) as control:
        await control.join("north")
        vm = await control.create(wanted=spec(disks=[DiskSpec(size="1Gi")]))
        made: Vm = await control.until_vm(vm, is_running)
        assert made.has_disks
        assert made.home is not None
        assert made.home.since
