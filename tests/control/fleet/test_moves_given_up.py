"""Moves that are given up, and hosts that others took a VM over from: its disks on shared storage are never lost."""

from __future__ import annotations

import pytest

from hostler.agent.drivers.fake import Fault
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec
from tests.control.fleet.control_plane import ControlPlane, is_running, run_control_plane, spec
from tests.wait import until

SHARED = spec(disks=[DiskSpec(size="1Gi", storage="shared")])


async def sent_and_not_told(control: ControlPlane) -> str:
    """Let a VM move from one silent host to another; return the VM."""
    north = await control.join("north")
    vm = await control.create_running(SHARED)
    south = await control.join("south")
    north.driver.faults.append(Fault(kind="blocked", verb="send"))
    await control.wish(vm, desired_state.migrate)
    await control.until_vm(vm, lambda one: one.trouble is not None)  # it was told to send, and tried
    north.wire.is_cut = south.wire.is_cut = True
    north.driver.faults.clear()
    await until(lambda: south.power(vm) == "running")
    assert (await control.vm(vm)).moving.phase == "copying"
    return vm


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "and the target's agent is killed"])
async def test_move_canceled_after_landing_leaves_disk_to_source(url, is_killed):
    async with run_control_plane(url) as control:
        vm = await sent_and_not_told(control)
        north, south = control.hosts["north"], control.hosts["south"]
        await control.wish(vm, desired_state.cancel_move)
        north.wire.is_cut = False
        if is_killed:
            south.driver.faults.append(Fault(verb="delete", times=1, is_after=True))
            await south.stop()
            south.start()
        south.wire.is_cut = False
        found = await control.until_vm(vm, lambda one: one.moving is None and is_running(one))
        assert found.home.name == "north"
        assert (north.power(vm), south.power(vm)) == ("running", "absent")
        assert ("land", vm) in south.driver.log
        assert control.wires.disks == {vm: "north"}
        assert control.wires.made == {vm: 1}
        await control.check_agreement()
        await control.wish(vm, desired_state.delete)
        await control.until_vm(vm, lambda one: one.is_gone)
        assert control.wires.disks == {}


async def test_a_move_that_comes_to_its_end_leaves_the_disk_to_the_target(url):
    async with run_control_plane(url) as control:
        await control.join("north")
        vm = await control.create_running(SHARED)
        await control.join("south")
        await control.wish(vm, desired_state.migrate)
        found = await control.until_vm(vm, lambda one: one.moving is None and is_running(one))
        assert found.home.name == "south"
        assert control.wires.disks == {vm: "south"}
        assert control.wires.made == {vm: 1}
