"""The life of VMs through real agents; at the end books, engine and agents count the same."""

from __future__ import annotations

import asyncio

from hostler.control.vms import wishes
from tests.control.fleet.scene import is_running, is_stopped, scene, spec


def test_a_vm_is_created_stopped_started_resized_moved_and_deleted(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            await world.join("north")
            await world.join("south")
            vm = await world.create_running()
            home = (await world.vm(vm)).home.name
            assert world.runs_on(vm) == [home]
            await world.wish(vm, wishes.stop)
            await world.until_vm(vm, is_stopped)
            assert world.hosts[home].power(vm) == "stopped"
            await world.check_agreement()
            await world.wish(vm, wishes.start)
            await world.until_vm(vm, is_running)
            await world.wish(vm, wishes.resize, spec(cpu="2", memory="2Gi"))
            grown = await world.until_vm(vm, is_running)
            assert grown.booked.cpu_millis == 2000
            await world.check_agreement()
            await world.wish(vm, wishes.migrate)
            moved = await world.until_vm(vm, lambda one: is_running(one) and one.moving is None)
            assert moved.home.name != home
            assert world.runs_on(vm) == [moved.home.name]
            await world.check_agreement()
            await world.wish(vm, wishes.delete)
            await world.until_vm(vm, lambda one: one.is_gone)
            assert not any(host.driver.vms for host in world.hosts.values())
            await world.check_agreement()

    asyncio.run(story())
