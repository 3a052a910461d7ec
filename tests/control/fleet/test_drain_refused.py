"""VMs that a drained host is not rid of because no other host takes them: who and why, as long as that is so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hostler.agent.messages import Capabilities
from hostler.control.fleet import operator_actions
from hostler.control.fleet.hosts.drains import StayingVm, list_staying
from hostler.control.vms import desired_state
from tests.control.fleet.control_plane import ControlPlane, is_running, is_stopped, run_control_plane, spec
from tests.wait import until


async def kept(control: ControlPlane, name: str) -> dict[str, StayingVm]:
    """Return who cannot leave a host, by VM."""
    host = control.hosts[name]
    found = await control.database.read(lambda connection: list_staying(connection, host.id))
    return {one.vm: one for one in found if one.is_stuck}


async def until_kept(
    control: ControlPlane, name: str, is_so: Callable[[dict[str, StayingVm]], bool]
) -> dict[str, StayingVm]:
    """Do the leader's duties until this holds for those who cannot leave."""
    found: dict[str, StayingVm] = {}

    async def look() -> bool:
        nonlocal found
        await control.duties()
        found = await kept(control, name)
        return is_so(found)

    await until(look)
    return found


async def full_house(control: ControlPlane) -> str:
    """Drain the only host that has room for its only VM; return the VM."""
    north = await control.join("north")
    vm = await control.create_running(spec(cpu="6"))
    await control.join("south")
    await control.create_running(spec(cpu="6"))
    await control.operate(operator_actions.drain, north, is_draining=True)
    found = await until_kept(control, "north", bool)
    assert found[vm].is_refused
    return vm


async def test_vm_without_room_elsewhere_stays_with_reason(url: str) -> None:
    async with run_control_plane(url) as control:
        vm = await full_house(control)
        why = (await kept(control, "north"))[vm].why
        assert why.startswith("0 of 2 hosts: ")
        assert "cpu" in why
        await control.join("west")
        control.clock.jump(control.times.move_again_s)
        await until_kept(control, "north", lambda found: not found)
        await until_kept(control, "north", lambda found: control.runs_on(vm) == ["west"])
        assert await kept(control, "north") == {}
        assert (await control.until_vm(vm, is_running)).home.name == "west"
        await control.check_agreement()


async def test_the_reason_stands_while_it_is_tried_again(url: str) -> None:
    async with run_control_plane(url) as control:
        vm = await full_house(control)
        before = (await control.vm(vm)).generation
        for _ in range(3):
            control.clock.jump(control.times.move_again_s)
            found = await until_kept(control, "north", lambda found: True)
            assert found[vm].is_refused
            await control.until_vm(vm, lambda one: one.moving is None)
        assert (await control.vm(vm)).generation > before, "it was tried again"


async def test_a_vm_that_may_only_be_there_is_kept_with_the_reason(url: str) -> None:
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await control.join("south")
        pinned = await control.create_running(spec(host_name="north"))
        await control.operate(operator_actions.drain, north, is_draining=True)
        found = await until_kept(control, "north", bool)
        assert found[pinned].why.startswith("0 of 2 hosts: ")
        await control.wish(pinned, desired_state.resize, spec())
        assert await kept(control, "north") == {}, "who changes what is wanted may leave after all"
        control.clock.jump(control.times.move_again_s)
        await until_kept(control, "north", lambda found: control.runs_on(pinned) == ["south"])


async def test_reason_is_forgotten_when_the_drain_ends_or_is_repeated(url: str) -> None:
    async with run_control_plane(url) as control:
        vm = await full_house(control)
        north = control.hosts["north"]
        await control.operate(operator_actions.drain, north, is_draining=False)
        assert await kept(control, "north") == {}
        await control.operate(operator_actions.drain, north, is_draining=True)
        assert await kept(control, "north") == {}
        await until_kept(control, "north", bool)
        await control.join("west")
        await control.operate(operator_actions.drain, north, is_draining=True)
        assert await kept(control, "north") == {}
        await until_kept(control, "north", lambda found: control.runs_on(vm) == ["west"])  # at once, no time passed


async def test_a_move_to_a_named_host_that_fails_says_nothing_about_leaving(url: str) -> None:
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running(spec(cpu="6"))
        await control.join("south")
        await control.create_running(spec(cpu="6"))
        await control.wish(vm, desired_state.migrate, "south")
        await control.until_vm(vm, lambda one: one.moving is None)
        await control.operate(operator_actions.drain, north, is_draining=True)
        assert await kept(control, "north") == {}


async def test_a_vm_that_waits_for_room_to_grow_cannot_leave(url: str) -> None:
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running(spec(cpu="6"))
        await control.wish(vm, desired_state.resize, spec(cpu="9"))
        await control.join("south")
        await control.operate(operator_actions.drain, north, is_draining=True)
        found = await until_kept(control, "north", bool)
        assert "room to grow" in found[vm].why
        await control.wish(vm, desired_state.resize, spec(cpu="6"))
        await until_kept(control, "north", lambda found: control.runs_on(vm) == ["south"])


async def test_a_vm_that_is_kept_and_then_stopped_leaves(url: str) -> None:
    async with run_control_plane(url) as control:
        vm = await full_house(control)
        await control.wish(vm, desired_state.stop)
        assert await kept(control, "north") == {}

        async def has_left() -> bool:
            await control.duties()
            return (await control.vm(vm)).home is None

        await until(has_left)


@pytest.mark.parametrize("reserve", [False, True])
async def test_vm_its_host_cannot_send_leaves_by_suggested_commands(url: str, reserve: bool) -> None:
    async with run_control_plane(url) as control:
        north = await control.join("north", capabilities=Capabilities(pause=True, resize_running=True, disks=True))
        vm = await control.create_running(spec(reserve=reserve))
        await control.join("south")
        await control.operate(operator_actions.drain, north, is_draining=True)
        name = f"{(await control.vm(vm)).project}/{(await control.vm(vm)).name}"
        why = (await until_kept(control, "north", bool))[vm].why
        stop, start = f"'hostler vm stop {name}'", f"'hostler vm start {name}'"
        let_go = f"'hostler vm resize {name} --no-reserve'"
        leave = f"{let_go} and {stop} let it leave" if reserve else f"{stop} lets it leave"
        assert why == f"the driver of this host cannot send it: {leave}, then {start} starts it elsewhere"
        await control.wish(vm, desired_state.stop)
        await control.until_vm(vm, is_stopped)
        if reserve:
            told = f"it keeps its room here although it is stopped: {let_go} gives it back"
            assert (await until_kept(control, "north", bool))[vm].why == told
            await control.wish(vm, desired_state.resize, spec())
        await until_left(control, vm)
        await control.wish(vm, desired_state.start)
        assert (await control.until_vm(vm, is_running)).home.name == "south"


async def until_left(control: ControlPlane, vm: str) -> None:
    """Do the leader's duties until a VM is on no host."""

    async def has_left() -> bool:
        await control.duties()
        return (await control.vm(vm)).home is None

    await until(has_left)
