"""Moves that are given up, and hosts that others took a VM over from: its disks on shared storage are never lost."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.drivers.fake import Fault
from hostler.control.vms import wishes
from hostler.control.vms.spec import DiskSpec
from tests.control.fleet.scene import Scene, is_running, scene, spec
from tests.wait import until

SHARED = spec(disks=[DiskSpec(size="1Gi", storage="shared")])


async def sent_and_not_told(world: Scene) -> str:
    """Let a VM leave a host and land at another, of which nobody hears either; return the VM."""
    north = await world.join("north")
    vm = await world.create_running(SHARED)
    south = await world.join("south")
    north.driver.faults.append(Fault(kind="blocked", verb="send"))
    await world.wish(vm, wishes.migrate)
    await world.until_vm(vm, lambda one: one.trouble is not None)  # it was told to send, and tried
    north.wire.is_cut = south.wire.is_cut = True
    north.driver.faults.clear()
    await until(lambda: south.power(vm) == "running")
    assert (await world.vm(vm)).moving.phase == "copying"
    return vm


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "and the target's agent is killed"])
def test_a_move_that_is_called_off_after_the_vm_landed_leaves_its_disk_to_the_source(url, is_killed):
    async def story() -> None:
        async with scene(url) as world:
            vm = await sent_and_not_told(world)
            north, south = world.hosts["north"], world.hosts["south"]
            await world.wish(vm, wishes.cancel_move)
            north.wire.is_cut = False
            if is_killed:
                south.driver.faults.append(Fault(verb="delete", times=1, is_after=True))
                await south.stop()
                south.start()
            south.wire.is_cut = False
            found = await world.until_vm(vm, lambda one: one.moving is None and is_running(one))
            assert found.home.name == "north"
            assert (north.power(vm), south.power(vm)) == ("running", "absent")
            assert ("land", vm) in south.driver.log
            assert world.wires.disks == {vm: "north"}
            assert world.wires.made == {vm: 1}
            await world.check_agreement()
            await world.wish(vm, wishes.delete)
            await world.until_vm(vm, lambda one: one.is_gone)
            assert world.wires.disks == {}

    asyncio.run(story())


def test_a_move_that_comes_to_its_end_leaves_the_disk_to_the_target(url):
    async def story() -> None:
        async with scene(url) as world:
            await world.join("north")
            vm = await world.create_running(SHARED)
            await world.join("south")
            await world.wish(vm, wishes.migrate)
            found = await world.until_vm(vm, lambda one: one.moving is None and is_running(one))
            assert found.home.name == "south"
            assert world.wires.disks == {vm: "south"}
            assert world.wires.made == {vm: 1}

    asyncio.run(story())
