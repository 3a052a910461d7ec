"""VMs that wait on a host that is drained: those that can start elsewhere do, the others are named with the reason."""

from __future__ import annotations

import asyncio

from hostler.control.fleet import operating
from hostler.control.fleet.draining import staying
from hostler.control.vms import wishes
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import state_of
from tests.control.fleet.scene import Scene, is_running, is_stopped, scene, spec
from tests.wait import until

KINDS = {"diskless": [], "shared": [DiskSpec(size="1Gi", storage="shared")], "local": [DiskSpec(size="1Gi")]}


async def waiting_on_a_full_host(world: Scene) -> dict[str, str]:
    """Return VMs that are to start on the only host, on which another one has taken the room."""
    await world.join("north")
    vms = {kind: await world.create_running(spec(disks=disks)) for kind, disks in KINDS.items()}
    for vm in vms.values():
        await world.wish(vm, wishes.stop)
        await world.until_vm(vm, is_stopped)
    await world.create_running(spec(cpu="8", disks=KINDS["local"]))
    for vm in vms.values():
        await world.wish(vm, wishes.start)
        await world.until_vm(vm, lambda one: bool(one.why))
        assert state_of(await world.vm(vm)) == "pending"
    return vms


def test_what_waits_for_room_on_a_draining_host_starts_elsewhere_or_is_named(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            vms = await waiting_on_a_full_host(world)
            await world.join("south")
            north = world.hosts["north"]
            await world.operate(operating.drain, north, is_draining=True)

            async def have_left() -> bool:
                await world.duties()
                return not {vms["diskless"], vms["shared"]} & {one.vm for one in await stays(world)}

            await until(have_left)
            for kind in ("diskless", "shared"):
                assert (await world.until_vm(vms[kind], is_running)).home.name == "south"
                assert world.runs_on(vms[kind]) == ["south"]
            [local] = [one for one in await stays(world) if one.vm == vms["local"]]
            assert local.is_stuck
            assert "disk on this host" in local.why
            assert state_of(await world.vm(vms["local"])) == "pending"
            assert world.wires.made == {vms["shared"]: 1}
            await world.check_agreement()

    asyncio.run(story())


async def stays(world: Scene) -> list:
    return await world.database.read(lambda connection: staying(connection, world.hosts["north"].id))
