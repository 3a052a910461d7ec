"""VMs that a drained host is not rid of because no other host takes them: who and why, as long as that is so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hostler.agent.messages import Capabilities
from hostler.control.fleet import operating
from hostler.control.fleet.draining import Staying, staying
from hostler.control.vms import wishes
from tests.control.fleet.scene import Scene, is_running, is_stopped, scene, spec
from tests.wait import until


async def kept(world: Scene, name: str) -> dict[str, Staying]:
    """Return who cannot leave a host, by VM."""
    host = world.hosts[name]
    found = await world.database.read(lambda connection: staying(connection, host.id))
    return {one.vm: one for one in found if one.is_stuck}


async def until_kept(world: Scene, name: str, is_so: Callable[[dict[str, Staying]], bool]) -> dict[str, Staying]:
    """Do the leader's duties until this holds for those who cannot leave."""
    found: dict[str, Staying] = {}

    async def look() -> bool:
        nonlocal found
        await world.duties()
        found = await kept(world, name)
        return is_so(found)

    await until(look)
    return found


async def full_house(world: Scene) -> str:
    """Drain the only host that has room for its only VM; return the VM."""
    north = await world.join("north")
    vm = await world.create_running(spec(cpu="6"))
    await world.join("south")
    await world.create_running(spec(cpu="6"))
    await world.operate(operating.drain, north, is_draining=True)
    found = await until_kept(world, "north", bool)
    assert found[vm].is_refused
    return vm


def test_a_vm_without_room_elsewhere_is_kept_with_the_reason_until_room_appears(url: str) -> None:
    async def story() -> None:
        async with scene(url) as world:
            vm = await full_house(world)
            why = (await kept(world, "north"))[vm].why
            assert why.startswith("0 of 2 hosts: ")
            assert "cpu" in why
            await world.join("west")
            world.clock.jump(world.times.move_again_s)
            await until_kept(world, "north", lambda found: not found)
            await until_kept(world, "north", lambda found: world.runs_on(vm) == ["west"])
            assert await kept(world, "north") == {}
            assert (await world.until_vm(vm, is_running)).home.name == "west"
            await world.check_agreement()

    asyncio.run(story())


def test_the_reason_stands_while_it_is_tried_again(url: str) -> None:
    async def story() -> None:
        async with scene(url) as world:
            vm = await full_house(world)
            before = (await world.vm(vm)).generation
            for _ in range(3):
                world.clock.jump(world.times.move_again_s)
                found = await until_kept(world, "north", lambda found: True)
                assert found[vm].is_refused
                await world.until_vm(vm, lambda one: one.moving is None)
            assert (await world.vm(vm)).generation > before, "it was tried again"

    asyncio.run(story())


def test_a_vm_that_may_only_be_there_is_kept_with_the_reason(url: str) -> None:
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            await world.join("south")
            pinned = await world.create_running(spec(host_name="north"))
            await world.operate(operating.drain, north, is_draining=True)
            found = await until_kept(world, "north", bool)
            assert found[pinned].why.startswith("0 of 2 hosts: ")
            await world.wish(pinned, wishes.resize, spec())
            assert await kept(world, "north") == {}, "who changes what is wanted may leave after all"
            world.clock.jump(world.times.move_again_s)
            await until_kept(world, "north", lambda found: world.runs_on(pinned) == ["south"])

    asyncio.run(story())


def test_whoever_ends_the_draining_or_asks_again_forgets_the_reason(url: str) -> None:
    async def story() -> None:
        async with scene(url) as world:
            vm = await full_house(world)
            north = world.hosts["north"]
            await world.operate(operating.drain, north, is_draining=False)
            assert await kept(world, "north") == {}
            await world.operate(operating.drain, north, is_draining=True)
            assert await kept(world, "north") == {}
            await until_kept(world, "north", bool)
            await world.join("west")
            await world.operate(operating.drain, north, is_draining=True)
            assert await kept(world, "north") == {}
            await until_kept(world, "north", lambda found: world.runs_on(vm) == ["west"])  # at once, no time passed

    asyncio.run(story())


def test_a_move_to_a_named_host_that_fails_says_nothing_about_leaving(url: str) -> None:
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running(spec(cpu="6"))
            await world.join("south")
            await world.create_running(spec(cpu="6"))
            await world.wish(vm, wishes.migrate, "south")
            await world.until_vm(vm, lambda one: one.moving is None)
            await world.operate(operating.drain, north, is_draining=True)
            assert await kept(world, "north") == {}

    asyncio.run(story())


def test_a_vm_that_waits_for_room_to_grow_cannot_leave(url: str) -> None:
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running(spec(cpu="6"))
            await world.wish(vm, wishes.resize, spec(cpu="9"))
            await world.join("south")
            await world.operate(operating.drain, north, is_draining=True)
            found = await until_kept(world, "north", bool)
            assert "room to grow" in found[vm].why
            await world.wish(vm, wishes.resize, spec(cpu="6"))
            await until_kept(world, "north", lambda found: world.runs_on(vm) == ["south"])

    asyncio.run(story())


def test_a_vm_that_is_kept_and_then_stopped_leaves(url: str) -> None:
    async def story() -> None:
        async with scene(url) as world:
            vm = await full_house(world)
            await world.wish(vm, wishes.stop)
            assert await kept(world, "north") == {}

            async def has_left() -> bool:
                await world.duties()
                return (await world.vm(vm)).home is None

            await until(has_left)

    asyncio.run(story())


@pytest.mark.parametrize("reserve", [False, True])
def test_a_vm_that_its_host_cannot_send_leaves_by_the_commands_that_it_is_told(url: str, reserve: bool) -> None:
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north", capabilities=Capabilities(pause=True, resize_running=True, disks=True))
            vm = await world.create_running(spec(reserve=reserve))
            await world.join("south")
            await world.operate(operating.drain, north, is_draining=True)
            name = f"{(await world.vm(vm)).project}/{(await world.vm(vm)).name}"
            why = (await until_kept(world, "north", bool))[vm].why
            stop, start = f"'hostler vm stop {name}'", f"'hostler vm start {name}'"
            let_go = f"'hostler vm resize {name} --no-reserve'"
            leave = f"{let_go} and {stop} let it leave" if reserve else f"{stop} lets it leave"
            assert why == f"the driver of this host cannot send it: {leave}, then {start} starts it elsewhere"
            await world.wish(vm, wishes.stop)
            await world.until_vm(vm, is_stopped)
            if reserve:
                told = f"it keeps its room here although it is stopped: {let_go} gives it back"
                assert (await until_kept(world, "north", bool))[vm].why == told
                await world.wish(vm, wishes.resize, spec())
            await until_left(world, vm)
            await world.wish(vm, wishes.start)
            assert (await world.until_vm(vm, is_running)).home.name == "south"

    asyncio.run(story())


async def until_left(world: Scene, vm: str) -> None:
    """Do the leader's duties until a VM is on no host."""

    async def has_left() -> bool:
        await world.duties()
        return (await world.vm(vm)).home is None

    await until(has_left)
