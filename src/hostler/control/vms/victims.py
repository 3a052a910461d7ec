"""VMs that make room for another VM by moving while they run. Pure; the leader uses it in its transactions.

The engine planned the destination and holds the room there. Here the VM's move begins with that room: the claim of the
move arrives in the engine as a guest that replaces the running one. If the move cannot begin, or fails later, the
engine hears of it and has the VM stopped instead (``placement.evict_vm``).
"""

from __future__ import annotations

import msgspec

from hostler.control.vms import desired_state, placement
from hostler.control.vms.guests import arrival
from hostler.control.vms.state import Booking, Vm, VmChange
from hostler.errors import HostlerError
from hostler.model import EvictFailed

__all__ = ["move_victim"]

_replace = msgspec.structs.replace


def move_victim(vm: Vm, uid: str, target: Booking | None, whom: str) -> VmChange:
    """Begin to move a VM to a host to make room for another one; ``whom`` says for which, in the owner's words.

    Without a target the host is not ready any more.
    """
    if vm.is_evicted or vm.power == "absent":
        return VmChange(vm=vm)  # its end is under way
    if vm.run is None or vm.run.uid != uid or not vm.run.is_bound:
        return _cannot_begin(vm, uid, "it is not there")
    if target is None:
        return _cannot_begin(vm, uid, "the other host is not ready any more")
    try:
        wanted = desired_state.migrate(vm, target.name).vm
    except HostlerError as error:
        return _cannot_begin(vm, uid, error.message)
    move, moving = wanted.move, wanted.moving
    assert move is not None
    assert moving is not None
    wanted = _replace(wanted, moving=_replace(moving, makes_room=whom))
    booked = placement.book_placement(wanted, move.uid, move.version, target, ())
    if booked.vm.move is None or not booked.vm.move.is_bound:
        return _cannot_begin(vm, uid, f"it cannot move to {target.name}")
    note = f"moves to {target.name} to make room for {whom}"
    return _replace(booked, facts=(arrival(booked.vm, booked.vm.move),), notes=(note,))


def _cannot_begin(vm: Vm, uid: str, why: str) -> VmChange:
    return VmChange(vm=vm, facts=(EvictFailed(uid=uid, reason=f"it cannot move: {why}"),))
