"""What follows when a host has done its order: room returns to the engine, and requests are fulfilled. Pure.

Used after every change of a VM's bookings: by reports, and by moves that end.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Trouble
from hostler.control.vms.guests import arrival, claim_update, departure, new_claim, with_run
from hostler.control.vms.state import Vm, VmChange
from hostler.model import Event

__all__ = ["DISK_GONE", "HOST_GONE", "leave_last_host", "mark_gone", "settle_vm"]

HOST_GONE = "its host is gone"
DISK_GONE = f"{HOST_GONE}, and its disk with it"

_replace = msgspec.structs.replace
_AT_REST = ("stopped", "absent", "left")


def settle_vm(vm: Vm) -> VmChange:
    """Return what follows for a VM at home; nothing if its host has not done its newest order."""
    if vm.home is None or vm.reported_generation != vm.home.generation or vm.power == "absent":
        return VmChange(vm=vm)
    wants_rest = vm.is_evicted or (vm.power == "stopped" and not vm.spec.reserve)
    if vm.has_room and wants_rest and vm.reported in _AT_REST:
        return _observed(_at_rest(vm))
    if vm.has_room and vm.grow is None and vm.moving is None:
        return _observed(_shrunk(vm))
    return _observed(VmChange(vm=vm))


def leave_last_host(vm: Vm, disk_gone: str = DISK_GONE) -> VmChange:
    """Return what follows for a VM that no host has any more, because its host was proved dead.

    ``disk_gone``: the text for the owner of a disk that was there.
    """
    if vm.power == "absent":
        return VmChange(vm=mark_gone(vm))
    if not vm.spec.is_movable:
        hint = "delete it, or start it with new disks"
        trouble = Trouble(kind="permanent", code="disk_lost", message=disk_gone, hint=hint)
        vm = _replace(vm, is_lost=True, power="stopped", why=disk_gone, trouble=trouble)
        return VmChange(vm=_replace(vm, failed_generation=vm.generation), notes=(disk_gone,), failed=disk_gone)
    if vm.power == "stopped":  # as was wanted, on whatever host it was to be
        vm = _replace(vm, observed_generation=vm.generation)
        return VmChange(vm=vm, notes=(HOST_GONE,), unmoved=HOST_GONE)
    if vm.spec.when_lost != "restart":
        vm = _replace(vm, power="stopped", observed_generation=vm.generation)
        return VmChange(vm=vm, notes=(HOST_GONE,), failed=f"{HOST_GONE}, and it does not start elsewhere by itself")
    vm, fact = with_run(vm)
    return VmChange(vm=vm, facts=(fact,), notes=(f"{HOST_GONE}: it starts elsewhere",))


def mark_gone(vm: Vm) -> Vm:
    """Return a VM that no host has any more, as gone."""
    return _replace(vm, is_gone=True, moving=None, observed_generation=vm.generation)


def _at_rest(vm: Vm) -> VmChange:
    """Give cpu and memory back; disks stay booked, in a claim of their own that comes before the other one goes."""
    assert vm.run is not None
    facts: list[Event] = [departure(vm.run)]
    keeps = vm.booked.disk_only
    vm = _replace(vm, run=None)
    if keeps.disk_bytes and vm.disk is None:
        vm, disk = new_claim(vm, keeps)
        disk = _replace(disk, is_bound=True)
        vm = _replace(vm, disk=disk)
        facts.insert(0, arrival(vm, disk))
    if vm.is_evicted:
        vm = _replace(vm, is_evicted=False)
        if vm.power != "stopped":
            vm, fact = with_run(vm)
            facts.append(fact)
    return VmChange(vm=vm, facts=tuple(facts))


def _shrunk(vm: Vm) -> VmChange:
    """Give back what is booked beyond the order, for each resource."""
    assert vm.run is not None
    has, wanted = vm.run.size, vm.wanted
    size = _replace(has.at_most(wanted), disk_bytes=has.disk_bytes)
    if size == has:
        return VmChange(vm=vm)
    run = _replace(vm.run, size=size, version=vm.run.version + 1)
    vm = _replace(vm, run=run)
    return VmChange(vm=vm, facts=(claim_update(vm, run),))


def _observed(change: VmChange) -> VmChange:
    vm = change.vm
    is_waiting = vm.grow is not None or vm.moving is not None or (vm.power != "stopped" and not vm.has_room)
    return change if is_waiting else _replace(change, vm=_replace(vm, observed_generation=vm.generation))
