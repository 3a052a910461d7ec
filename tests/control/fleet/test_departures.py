"""VMs that are gone: told once for each of their lives on a host, and old news about an earlier one change nothing."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import REPORT_PATH, Departed, Report
from hostler.control.vms import desired_state, placement
from hostler.control.vms.state import Vm
from tests.control.fleet.control_plane import ControlPlane, run_control_plane
from tests.control.fleet.replicas_and_hosts import HostWithAgent
from tests.wait import until


async def gone_once(control: ControlPlane) -> tuple[HostWithAgent, Vm]:
    """Return a VM that made way, was removed and is bound again to its only host, which does not know that yet."""
    north = await control.join("north")
    identity = await control.create_running()
    north.wire.holds_polls = True
    await until(lambda: not north.wire.polling)
    first = await control.wish(identity, lambda vm: placement.evict_vm(vm, vm.run.uid, "something else needs the room"))
    north.wire.lets_polls = 1
    vm = await control.until_vm(identity, lambda one: one.run is not None and one.run.is_bound and not one.is_evicted)
    assert vm.home.generation > first.home.generation
    assert identity not in north.driver.vms
    return north, vm


async def test_vm_rebound_and_deleted_unheard_is_reported_gone_again(either_url):
    async with run_control_plane(either_url) as control:
        north, vm = await gone_once(control)
        await control.wish(vm.id, desired_state.delete)
        north.wire.holds_polls = False
        await control.until_vm(vm.id, lambda one: one.is_gone)
        await control.check_agreement()


async def test_old_news_that_a_vm_is_gone_do_not_end_its_next_life(url):
    async with run_control_plane(url) as control:
        north, vm = await gone_once(control)
        now = await control.wish(vm.id, desired_state.delete)
        north.wire.is_cut = True
        await until(lambda: not north.wire.in_flight)
        last = [request for request in north.wire.seen if request.path == REPORT_PATH][-1]
        report = msgspec.json.decode(last.body, type=Report)

        async def told(by: int, *departed: Departed) -> Vm:
            message = msgspec.structs.replace(report, sequence=report.sequence + by, gone=(vm.id,), departed=departed)
            await control.leader.fleet.report(north.credential, message)
            return await control.vm(vm.id)

        assert await told(1, Departed(vm=vm.id, generation=vm.home.generation)) == now
        assert await told(2, Departed(vm=vm.id, generation=vm.home.generation - 1)) == now
        assert (await told(3)).is_gone, "an agent of the version before tells no generation"
