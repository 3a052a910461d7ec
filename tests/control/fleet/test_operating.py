"""What operators do: drain, allow teardown, change what a host may give."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.messages import Capabilities
from hostler.control.books import ledger
from hostler.control.fleet import operating
from hostler.control.fleet.draining import staying
from hostler.control.fleet.errors import TeardownChangedError
from hostler.control.fleet.hosts import read_body
from hostler.control.fleet.times import times_for
from hostler.control.vms import wishes
from hostler.control.vms.spec import DiskSpec
from hostler.errors import InputError
from hostler.model import CPU
from tests.control.fleet.scene import SETTINGS, Scene, is_running, is_stopped, scene, spec
from tests.wait import until


async def stuck(world: Scene, name: str) -> dict[str, str]:
    host = world.hosts[name]
    found = await world.database.read(lambda connection: staying(connection, host.id))
    return {one.vm: one.why for one in found if one.is_stuck}


async def drained(world: Scene, name: str, left: list[str]) -> None:
    """Do the leader's duties until only these VMs are on a host."""
    host = world.hosts[name]

    async def look() -> bool:
        await world.duties()
        found = await world.database.read(lambda connection: staying(connection, host.id))
        return sorted(one.vm for one in found) == sorted(left)

    await until(look)


def test_drain_empties_a_host_of_what_can_move_and_names_what_cannot(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north = await world.join("north")
            movers = [await world.create_running() for _ in range(6)]
            resting = await world.create_running()
            await world.wish(resting, wishes.stop)
            await world.until_vm(resting, is_stopped)
            shared = await world.create_running(spec(disks=[DiskSpec(size="1Gi", storage="shared")]))
            with_disk = await world.create_running(spec(cpu="100m", disks=[DiskSpec(size="1Gi")]))
            paused = await world.create_running(spec(cpu="100m"))
            await world.wish(paused, wishes.pause)
            await world.until_vm(paused, lambda vm: vm.reported == "paused")
            await world.join("south")
            await world.operate(operating.drain, north, is_draining=True)
            await drained(world, "north", [with_disk, paused])
            reasons = await stuck(world, "north")
            assert "disk on this host" in reasons[with_disk]
            assert "paused" in reasons[paused]
            for vm in (*movers, shared):
                assert (await world.until_vm(vm, is_running)).home.name == "south"
                assert world.runs_on(vm) == ["south"]
            assert (await world.vm(resting)).home is None
            await until(lambda: sorted(north.driver.vms) == sorted([with_disk, paused]))
            await world.wish(resting, wishes.start)
            assert (await world.until_vm(resting, is_running)).home.name == "south"
            await world.wish(with_disk, wishes.delete)
            await world.wish(paused, wishes.delete)
            await drained(world, "north", [])
            await world.check_agreement()
            await world.operate(operating.drain, north, is_draining=False)
            await world.operate(operating.cordon, world.hosts["south"], is_cordoned=True)
            assert (await world.until_vm(await world.create(), is_running)).home.name == "north"

    asyncio.run(story())


def test_a_draining_host_moves_only_a_few_vms_at_once(url):
    async def story() -> None:
        times = msgspec.structs.replace(times_for(SETTINGS), moves_at_once=1)
        async with scene(url, times=times) as world:
            north = await world.join("north", delays_s={"send": 0.2})
            vms = [await world.create_running() for _ in range(3)]
            await world.join("south")
            await world.operate(operating.drain, north, is_draining=True)
            seen: set[int] = set()

            async def look() -> bool:
                await world.duties()
                now = [await world.vm(vm) for vm in vms]
                seen.add(sum(1 for vm in now if vm.moving is not None))
                return all(vm.home.name == "south" and vm.moving is None for vm in now)

            await until(look)
            assert seen <= {0, 1}

    asyncio.run(story())


def test_a_host_that_cannot_send_says_so_and_vms_without_room_elsewhere_stay(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north", capabilities=Capabilities(pause=True, disks=True))
            vm = await world.create_running()
            await world.operate(operating.drain, north, is_draining=True)
            await world.duties()
            assert "cannot send" in (await stuck(world, "north"))[vm]
            assert (await world.vm(vm)).moving is None

    asyncio.run(story())


def test_tearing_down_many_vms_at_once_needs_their_number(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north = await world.join("north")
            vms = [await world.create_running() for _ in range(6)]

            def delete_all(connection) -> None:
                for vm in vms[:5]:
                    stored = ledger.load(connection, vm)
                    ledger.write(connection, stored, wishes.delete(stored.vm), actor="key:1", now_ns=1)

            await world.database.write(delete_all)

            async def refused() -> bool:
                return read_body(await world.row("north")).refused_teardown == 5

            await until(refused)
            assert len(north.driver.vms) == 6
            for wrong in (0, 4, 6):
                with pytest.raises(TeardownChangedError):
                    await world.operate(operating.allow_teardown, north, confirm=wrong)
            await world.operate(operating.allow_teardown, north, confirm=5)
            for vm in vms[:5]:
                await world.until_vm(vm, lambda one: one.is_gone)
            assert list(north.driver.vms) == vms[5:]

            async def spent() -> bool:
                body = read_body(await world.row("north"))
                return not body.may_tear_down and not body.refused_teardown

            await until(spent)
            await world.check_agreement()

    asyncio.run(story())


def test_what_a_host_may_give_reaches_the_engine_and_its_agent(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            wish = operating.HostWish(overcommit=((CPU, 2_000_000),), labels=(("rack", "r1"),))
            await world.operate(operating.change_host, north, wish=wish, settings=world.settings)
            await until(lambda: north.agent._worker.state.limit.cpu_millis == 16_000)
            vm = await world.create_running(spec(cpu="12", host_selector={"rack": "r1"}))
            assert north.power(vm) == "running"
            bad = operating.HostWish(reserve=(("sunshine", 1),))
            with pytest.raises(InputError):
                await world.operate(operating.change_host, north, wish=bad, settings=world.settings)

    asyncio.run(story())
