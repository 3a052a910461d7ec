"""VMs that wait on a host that is drained: those that can start elsewhere do, the others are named with the reason."""

from __future__ import annotations

from hostler.control.fleet import operator_actions
from hostler.control.fleet.hosts.drains import list_staying
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import state_of
from tests.control.fleet.control_plane import ControlPlane, is_running, is_stopped, run_control_plane, spec
from tests.wait import until

KINDS = {"diskless": [], "shared": [DiskSpec(size="1Gi", storage="shared")], "local": [DiskSpec(size="1Gi")]}


async def waiting_on_a_full_host(control: ControlPlane) -> dict[str, str]:
    """Return VMs that are to start on the only host, on which another one has taken the room."""
    await control.join("north")
    vms = {kind: await control.create_running(spec(disks=disks)) for kind, disks in KINDS.items()}
    for vm in vms.values():
        await control.wish(vm, desired_state.stop)
        await control.until_vm(vm, is_stopped)
    await control.create_running(spec(cpu="8", disks=KINDS["local"]))
    for vm in vms.values():
        await control.wish(vm, desired_state.start)
        await control.until_vm(vm, lambda one: bool(one.why))
        assert state_of(await control.vm(vm)) == "pending"
    return vms


async def test_waiting_vm_on_draining_host_starts_elsewhere_or_is_named(either_url):
    async with run_control_plane(either_url) as control:
        vms = await waiting_on_a_full_host(control)
        await control.join("south")
        north = control.hosts["north"]
        await control.operate(operator_actions.drain, north, is_draining=True)

        async def have_left() -> bool:
            await control.duties()
            return not {vms["diskless"], vms["shared"]} & {one.vm for one in await stays(control)}

        await until(have_left)
        for kind in ("diskless", "shared"):
            assert (await control.until_vm(vms[kind], is_running)).home.name == "south"
            assert control.runs_on(vms[kind]) == ["south"]
        [local] = [one for one in await stays(control) if one.vm == vms["local"]]
        assert local.is_stuck
        assert "disk on this host" in local.why
        assert state_of(await control.vm(vms["local"])) == "pending"
        assert control.wires.made == {vms["shared"]: 1}
        await control.check_agreement()


async def stays(control: ControlPlane) -> list:
    return await control.database.read(lambda connection: list_staying(connection, control.hosts["north"].id))
