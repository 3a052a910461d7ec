"""VMs that are gone: told once for each of their lives on a host, and old news about an earlier one change nothing."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.agent.messages import REPORT_PATH, Departed, Report
from hostler.control.vms import placing, wishes
from hostler.control.vms.state import Vm
from tests.control.fleet.scene import Scene, scene
from tests.control.fleet.sides import HostSide
from tests.wait import until


async def gone_once(world: Scene) -> tuple[HostSide, Vm]:
    """Return a VM that made way, was removed and is bound again to its only host, which does not know that yet."""
    north = await world.join("north")
    identity = await world.create_running()
    north.wire.holds_polls = True
    await until(lambda: not north.wire.polling)
    first = await world.wish(identity, lambda vm: placing.evicted(vm, vm.run.uid, "something else needs the room"))
    north.wire.lets_polls = 1
    vm = await world.until_vm(identity, lambda one: one.run is not None and one.run.is_bound and not one.is_evicted)
    assert vm.home.generation > first.home.generation
    assert identity not in north.driver.vms
    return north, vm


def test_a_vm_that_is_bound_again_and_deleted_before_the_host_hears_of_it_is_told_gone_again(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north, vm = await gone_once(world)
            await world.wish(vm.id, wishes.delete)
            north.wire.holds_polls = False
            await world.until_vm(vm.id, lambda one: one.is_gone)
            await world.check_agreement()

    asyncio.run(story())


def test_old_news_that_a_vm_is_gone_do_not_end_its_next_life(url):
    async def story() -> None:
        async with scene(url) as world:
            north, vm = await gone_once(world)
            now = await world.wish(vm.id, wishes.delete)
            north.wire.is_cut = True
            await until(lambda: not north.wire.in_flight)
            last = [request for request in north.wire.seen if request.path == REPORT_PATH][-1]
            report = msgspec.json.decode(last.body, type=Report)

            async def told(by: int, *departed: Departed) -> Vm:
                message = msgspec.structs.replace(
                    report, sequence=report.sequence + by, gone=(vm.id,), departed=departed
                )
                await world.leader.fleet.report(north.credential, message)
                return await world.vm(vm.id)

            assert await told(1, Departed(vm=vm.id, generation=vm.home.generation)) == now
            assert await told(2, Departed(vm=vm.id, generation=vm.home.generation - 1)) == now
            assert (await told(3)).is_gone, "an agent of the version before tells no generation"

    asyncio.run(story())
