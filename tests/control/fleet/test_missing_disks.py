"""Disks that disappear while their host is heard: the VM is lost; storage that is out of reach loses none."""

from __future__ import annotations

import asyncio

from hostler.agent.messages import REPORT_PATH
from hostler.control.fleet.hosts import host_of, read_body
from hostler.control.fleet.troubles import trouble_of
from hostler.control.vms import wishes
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import Vm, state_of
from tests.control.fleet.scene import is_running, is_stopped, scene, spec
from tests.control.fleet.test_disks_gone import LOCAL, SHARED, creations, events, is_lost
from tests.wait import until


def has_trouble(code: str):
    return lambda vm: vm.trouble is not None and vm.trouble.code == code


def test_vm_whose_folder_disappears_is_lost_and_not_made_again(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north = await world.join("north")
            vm, other = await world.create_running(LOCAL), await world.create_running(LOCAL)
            north.driver.vms.pop(vm)
            lost = await world.until_vm(vm, is_lost)
            assert (lost.home, lost.trouble.message) == (None, "its disk is no longer on north")
            assert creations(north) == [vm, other]
            assert is_running(await world.vm(other))
            assert "its disk is no longer on north" in await events(world)
            await world.check_agreement()
            await world.wish(vm, wishes.start)
            await world.until_vm(vm, is_running)
            assert creations(north) == [vm, other, vm], "its owner wanted a new one"
            await world.check_agreement()

    asyncio.run(story())


def test_unmounted_storage_loses_no_vm_and_recovers(url):
    """The host says what is wrong and takes no VMs; its VMs keep their state. Mounted again, all goes on."""

    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            running, resting, bare = [await world.create_running(wanted) for wanted in (LOCAL, LOCAL, spec())]
            await world.wish(resting, wishes.stop)
            await world.until_vm(resting, is_stopped)
            north.driver.unmounted[""] = "nothing is mounted at /vms"
            await world.until_vm(running, has_trouble("storage_unavailable"))
            await world.until_vm(resting, has_trouble("storage_unavailable"))
            row = await world.row("north")
            assert "nothing is mounted at /vms" in trouble_of(row, read_body(row))
            assert host_of(row, read_body(row)).cordoned
            assert [state_of(await world.vm(vm)) for vm in (running, resting)] == ["running", "stopped"]
            await north.stop()
            north.wire.answers.clear()
            north.start()
            await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
            waiting = await world.create(wanted=LOCAL)
            await world.until_vm(waiting, lambda vm: bool(vm.why))
            assert [state_of(await world.vm(vm)) for vm in (running, resting)] == ["running", "stopped"]
            north.driver.unmounted.clear()
            for vm in (running, bare, waiting):
                await world.until_vm(vm, lambda vm: is_running(vm) and vm.trouble is None)
            await world.until_vm(resting, lambda vm: is_stopped(vm) and vm.trouble is None)
            assert creations(north) == [running, resting, bare, waiting]
            told = await events(world)
            assert "the place of its local disks is unavailable" in told
            assert "the place of its local disks is available again" in told
            assert "lost" not in told
            await world.check_agreement()

    asyncio.run(story())


def test_unmounted_storage_and_lost_records_lose_no_vm(url):
    """An agent that knows nothing and reaches nothing says nothing about what is on its host."""

    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running(LOCAL)
            await north.stop()
            north.manifest.records.clear()
            north.driver.vms[vm].power = "stopped"
            north.driver.unmounted[""] = "nothing is mounted at /vms"
            north.start()
            await world.until_vm(vm, has_trouble("storage_unavailable"))
            assert not is_lost(await world.vm(vm))
            north.driver.unmounted.clear()
            await world.until_vm(vm, lambda vm: is_running(vm) and vm.trouble is None)
            assert creations(north) == [vm]

    asyncio.run(story())


def test_missing_shared_disk_blocks_the_vm_and_does_not_lose_it(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running(SHARED)
            assert (await world.vm(vm)).has_disks
            north.driver.vms.pop(vm)
            claimed = world.wires.disks.pop(vm)
            await world.until_vm(vm, has_trouble("disk_missing"))
            assert not is_lost(await world.vm(vm))
            world.wires.disks[vm] = claimed
            await world.until_vm(vm, lambda vm: is_running(vm) and vm.trouble is None)

    asyncio.run(story())


def test_vm_that_runs_without_its_record_says_so(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running(LOCAL)
            north.driver.strays.add(vm)
            stray = await world.until_vm(vm, has_trouble("record_missing"))
            assert is_running(stray)
            await world.wish(vm, wishes.delete)
            await world.until_vm(vm, lambda vm: vm.is_gone)

    asyncio.run(story())


def test_disk_of_a_vm_that_was_never_made_is_made(url):
    async def story() -> None:
        async with scene(url) as world:
            await world.join("north")
            vm = await world.create(wanted=spec(disks=[DiskSpec(size="1Gi")]))
            made: Vm = await world.until_vm(vm, is_running)
            assert made.has_disks
            assert made.home is not None
            assert made.home.since

    asyncio.run(story())
