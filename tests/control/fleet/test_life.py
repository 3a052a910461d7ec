"""The life of VMs through real agents; at the end books, engine and agents count the same."""

from __future__ import annotations

from hostler.control.vms import desired_state
from tests.control.fleet.control_plane import is_running, is_stopped, run_control_plane, spec


async def test_a_vm_is_created_stopped_started_resized_moved_and_deleted(either_url):
    async with run_control_plane(either_url) as control:
        await control.join("north")
        await control.join("south")
        vm = await control.create_running()
        home = (await control.vm(vm)).home.name
        assert control.runs_on(vm) == [home]
        await control.wish(vm, desired_state.stop)
        await control.until_vm(vm, is_stopped)
        assert control.hosts[home].power(vm) == "stopped"
        await control.check_agreement()
        await control.wish(vm, desired_state.start)
        await control.until_vm(vm, is_running)
        await control.wish(vm, desired_state.resize, spec(cpu="2", memory="2Gi"))
        grown = await control.until_vm(vm, is_running)
        assert grown.booked.cpu_millis == 2000
        await control.check_agreement()
        await control.wish(vm, desired_state.migrate)
        moved = await control.until_vm(vm, lambda one: is_running(one) and one.moving is None)
        assert moved.home.name != home
        assert control.runs_on(vm) == [moved.home.name]
        await control.check_agreement()
        await control.wish(vm, desired_state.delete)
        await control.until_vm(vm, lambda one: one.is_gone)
        assert not any(host.driver.vms for host in control.hosts.values())
        await control.check_agreement()
