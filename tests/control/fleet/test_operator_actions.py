"""What operators do: drain, allow teardown, change what a host may give."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import Capabilities
from hostler.control.books import ledger
from hostler.control.fleet import operator_actions
from hostler.control.fleet.errors import TeardownChangedError
from hostler.control.fleet.hosts.drains import list_staying
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.times import times_for
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec
from hostler.errors import InputError
from hostler.model import CPU
from tests.control.fleet.control_plane import SETTINGS, ControlPlane, is_running, is_stopped, run_control_plane, spec
from tests.wait import until


async def stuck(control: ControlPlane, name: str) -> dict[str, str]:
    host = control.hosts[name]
    found = await control.database.read(lambda connection: list_staying(connection, host.id))
    return {one.vm: one.why for one in found if one.is_stuck}


async def drained(control: ControlPlane, name: str, left: list[str]) -> None:
    """Do the leader's duties until only these VMs are on a host."""
    host = control.hosts[name]

    async def look() -> bool:
        await control.duties()
        found = await control.database.read(lambda connection: list_staying(connection, host.id))
        return sorted(one.vm for one in found) == sorted(left)

    await until(look)


async def test_drain_empties_a_host_of_what_can_move_and_names_what_cannot(either_url):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        movers = [await control.create_running() for _ in range(6)]
        resting = await control.create_running()
        await control.wish(resting, desired_state.stop)
        await control.until_vm(resting, is_stopped)
        shared = await control.create_running(spec(disks=[DiskSpec(size="1Gi", storage="shared")]))
        with_disk = await control.create_running(spec(cpu="100m", disks=[DiskSpec(size="1Gi")]))
        paused = await control.create_running(spec(cpu="100m"))
        await control.wish(paused, desired_state.pause)
        await control.until_vm(paused, lambda vm: vm.reported == "paused")
        await control.join("south")
        await control.operate(operator_actions.drain, north, is_draining=True)
        await drained(control, "north", [with_disk, paused])
        reasons = await stuck(control, "north")
        assert "disk on this host" in reasons[with_disk]
        assert "paused" in reasons[paused]
        for vm in (*movers, shared):
            assert (await control.until_vm(vm, is_running)).home.name == "south"
            assert control.runs_on(vm) == ["south"]
        assert (await control.vm(resting)).home is None
        await until(lambda: sorted(north.driver.vms) == sorted([with_disk, paused]))
        await control.wish(resting, desired_state.start)
        assert (await control.until_vm(resting, is_running)).home.name == "south"
        await control.wish(with_disk, desired_state.delete)
        await control.wish(paused, desired_state.delete)
        await drained(control, "north", [])
        await control.check_agreement()
        await control.operate(operator_actions.drain, north, is_draining=False)
        await control.operate(operator_actions.cordon, control.hosts["south"], is_cordoned=True)
        assert (await control.until_vm(await control.create(), is_running)).home.name == "north"


async def test_a_draining_host_moves_only_a_few_vms_at_once(url):
    times = msgspec.structs.replace(times_for(SETTINGS), moves_at_once=1)
    async with run_control_plane(url, times=times) as control:
        north = await control.join("north", delays_s={"send": 0.2})
        vms = [await control.create_running() for _ in range(3)]
        await control.join("south")
        await control.operate(operator_actions.drain, north, is_draining=True)
        seen: set[int] = set()

        async def look() -> bool:
            await control.duties()
            now = [await control.vm(vm) for vm in vms]
            seen.add(sum(1 for vm in now if vm.moving is not None))
            return all(vm.home.name == "south" and vm.moving is None for vm in now)

        await until(look)
        assert seen <= {0, 1}


async def test_host_that_cannot_send_says_so_and_keeps_its_vms(url):
    async with run_control_plane(url) as control:
        north = await control.join("north", capabilities=Capabilities(pause=True, disks=True))
        vm = await control.create_running()
        await control.operate(operator_actions.drain, north, is_draining=True)
        await control.duties()
        assert "cannot send" in (await stuck(control, "north"))[vm]
        assert (await control.vm(vm)).moving is None


async def test_tearing_down_many_vms_at_once_needs_their_number(either_url):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        vms = [await control.create_running() for _ in range(6)]

        def delete_all(connection) -> None:
            for vm in vms[:5]:
                stored = ledger.load(connection, vm)
                ledger.write(connection, stored, desired_state.delete(stored.vm), actor="key:1", now_ns=1)

        await control.database.write(delete_all)

        async def refused() -> bool:
            return read_body(await control.row("north")).refused_teardown == 5

        await until(refused)
        assert len(north.driver.vms) == 6
        for wrong in (0, 4, 6):
            with pytest.raises(TeardownChangedError):
                await control.operate(operator_actions.allow_teardown, north, confirm=wrong)
        await control.operate(operator_actions.allow_teardown, north, confirm=5)
        for vm in vms[:5]:
            await control.until_vm(vm, lambda one: one.is_gone)
        assert list(north.driver.vms) == vms[5:]

        async def spent() -> bool:
            body = read_body(await control.row("north"))
            return not body.may_tear_down and not body.refused_teardown

        await until(spent)
        await control.check_agreement()


async def test_what_a_host_may_give_reaches_the_engine_and_its_agent(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        wish = operator_actions.HostUpdate(overcommit=((CPU, 2_000_000),), labels=(("rack", "r1"),))
        await control.operate(operator_actions.change_host, north, wish=wish, settings=control.settings)
        await until(lambda: north.agent._worker.state.limit.cpu_millis == 16_000)
        vm = await control.create_running(spec(cpu="12", host_selector={"rack": "r1"}))
        assert north.power(vm) == "running"
        bad = operator_actions.HostUpdate(reserve=(("sunshine", 1),))
        with pytest.raises(InputError):
            await control.operate(operator_actions.change_host, north, wish=bad, settings=control.settings)
