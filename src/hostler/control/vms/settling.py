"""What follows when a host has done as ordered: room that goes back to the engine, and wishes that came true. Pure.

Used wherever a VM's books change so that something may follow: reports, and moves that end.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Trouble
from hostler.control.vms.guests import arrival, departure, new_claim, regrown, with_run
from hostler.control.vms.state import Change, Vm
from hostler.model import Event

__all__ = ["DISK_GONE", "HOST_GONE", "ended", "homeless", "settled"]

HOST_GONE = "its host is gone"
DISK_GONE = f"{HOST_GONE}, and its disk with it"

_replace = msgspec.structs.replace
_AT_REST = ("stopped", "absent", "left")


def settled(vm: Vm) -> Change:
    """Return what follows for a VM at home; nothing where its host has not fulfilled its newest order."""
    if vm.home is None or vm.reported_generation != vm.home.generation or vm.power == "absent":
        return Change(vm=vm)
    wants_rest = vm.is_evicted or (vm.power == "stopped" and not vm.spec.reserve)
    if vm.has_room and wants_rest and vm.reported in _AT_REST:
        return _observed(_at_rest(vm))
    if vm.has_room and vm.grow is None and vm.moving is None:
        return _observed(_shrunk(vm))
    return _observed(Change(vm=vm))


def homeless(vm: Vm, disk_gone: str = DISK_GONE) -> Change:
    """Return what becomes of a VM of which no host has anything any more, because its host was proved dead.

    ``disk_gone``: what the owner of a disk that lay there is told.
    """
    if vm.power == "absent":
        return Change(vm=ended(vm))
    if not vm.spec.is_movable:
        hint = "delete it, or start it with new disks"
        trouble = Trouble(kind="permanent", code="disk_lost", message=disk_gone, hint=hint)
        vm = _replace(vm, is_lost=True, power="stopped", why=disk_gone, trouble=trouble)
        return Change(vm=_replace(vm, failed_generation=vm.generation), notes=(disk_gone,), failed=disk_gone)
    if vm.power == "stopped":  # as was wanted, on whatever host it was to be
        vm = _replace(vm, observed_generation=vm.generation)
        return Change(vm=vm, notes=(HOST_GONE,), unmoved=HOST_GONE)
    if vm.spec.when_lost != "restart":
        vm = _replace(vm, power="stopped", observed_generation=vm.generation)
        return Change(vm=vm, notes=(HOST_GONE,), failed=f"{HOST_GONE}, and it does not start elsewhere by itself")
    vm, fact = with_run(vm)
    return Change(vm=vm, facts=(fact,), notes=(f"{HOST_GONE}: it starts elsewhere",))


def ended(vm: Vm) -> Vm:
    """Return a VM of which nobody has anything any more."""
    return _replace(vm, is_gone=True, moving=None, observed_generation=vm.generation)


def _at_rest(vm: Vm) -> Change:
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
    return Change(vm=vm, facts=tuple(facts))


def _shrunk(vm: Vm) -> Change:
    """Give back what is booked beyond the order, resource by resource."""
    assert vm.run is not None
    has, wanted = vm.run.size, vm.wanted
    size = _replace(has.at_most(wanted), disk_bytes=has.disk_bytes)
    if size == has:
        return Change(vm=vm)
    run = _replace(vm.run, size=size, version=vm.run.version + 1)
    vm = _replace(vm, run=run)
    return Change(vm=vm, facts=(regrown(vm, run),))


def _observed(change: Change) -> Change:
    vm = change.vm
    is_waiting = vm.grow is not None or vm.moving is not None or (vm.power != "stopped" and not vm.has_room)
    return change if is_waiting else _replace(change, vm=_replace(vm, observed_generation=vm.generation))
