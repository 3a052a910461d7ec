"""Since when a VM runs, which decides who is spared when equal VMs could be preempted. Pure.

The time is that of the log entry in which a host first reports that the VM runs on the room that it has. So every
replica, and an engine that is restored or rebuilt, knows the same time. It ends when the VM gives its room back or its
owner stops it; the next start gets a new time. A migration, a pause, a restart and a silent host change nothing.

States: not running (0) --a host reports running or paused--> running since --stopped, or without room--> not running.
"""

from __future__ import annotations

import msgspec

from hostler.control.vms.guests import claim_update
from hostler.control.vms.state import Claim, Vm, VmChange
from hostler.model import Event

__all__ = ["lacks_start_time", "with_start_time"]

_replace = msgspec.structs.replace
_ALIVE = ("running", "paused")


def lacks_start_time(vm: Vm) -> bool:
    """Say whether a VM runs on its own room, and since when is not known yet."""
    is_alive = vm.power in _ALIVE and vm.reported in _ALIVE and vm.home is not None and vm.has_room
    return is_alive and not vm.runs_since_ns


def with_start_time(before: Vm, change: VmChange, now_ns: int) -> VmChange:
    """Return a change with the start time that follows from it, and the facts about that; ``now_ns`` is their time."""
    vm = change.vm
    if lacks_start_time(vm):
        vm = _replace(vm, runs_since_ns=now_ns)
    elif vm.runs_since_ns and (vm.power == "stopped" or not (_is_bound(vm.run) or _is_bound(vm.move))):
        vm = _replace(vm, runs_since_ns=0)
    if vm.runs_since_ns == before.runs_since_ns:
        return change
    facts: list[Event] = []
    if vm.runs_since_ns or vm.spec.reserve:  # else the room leaves with the VM, and the engine forgets the time
        known = {claim.uid for claim in (before.run, before.move) if claim is not None}
        for role in ("run", "move"):
            claim: Claim | None = getattr(vm, role)
            if claim is not None and claim.uid in known:
                claim = _replace(claim, version=claim.version + 1)
                vm = _replace(vm, **{role: claim})
                facts.append(claim_update(vm, claim))
    return _replace(change, vm=vm, facts=(*change.facts, *facts))


def _is_bound(claim: Claim | None) -> bool:
    return claim is not None and claim.is_bound
