"""The course of a migration: prepare the target, copy, hand over by a newer generation, clean up. Pure.

The VM belongs to the source until the target reports that it runs there. An aborted move lets the target go first. Only
when the target has removed it does the source get a newer order, because an agent that sent its VM away starts it again
only by a newer order. The side that gives up keeps the disks on shared storage, since they belong to the side that has
the VM. A stopped VM has nothing to copy: it belongs to the target as soon as that is decided, and then the source
cleans up.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import VmReport
from hostler.control.vms.guests import departures
from hostler.control.vms.settlement import leave_last_host, settle_vm
from hostler.control.vms.state import Booking, Vm, VmChange

__all__ = [
    "abort_move", "apply_target_report", "finish_cold_move", "has_failed", "leave_second_host", "lose_second_host",
    "lose_source",
]  # fmt: skip

_replace = msgspec.structs.replace
_UNDECIDED = ("preparing", "copying")


def has_failed(report: VmReport, generation: int) -> bool:
    """Say whether a host has failed an order for good."""
    is_final = report.trouble is not None and report.trouble.kind == "permanent"
    return is_final and report.failed_generation == generation


def apply_target_report(vm: Vm, report: VmReport) -> VmChange:
    """Apply a report of the second host of a move."""
    other, moving = vm.other, vm.moving
    if other is None or moving is None or vm.power == "absent" or report.generation > other.generation:
        return VmChange(vm=vm)
    if moving.phase not in _UNDECIDED:
        return VmChange(vm=vm)
    if report.state == "running" and report.generation == other.generation:
        return _arrived(vm, report)
    if vm.home is None:  # no source sends it any more, so it never arrives if it has not by now
        return VmChange(vm=vm) if report.state == "running" else abort_move(vm, "its source is gone")
    if report.state == "landing" and report.landing_address:
        return _copying(vm, report)
    if has_failed(report, other.generation):
        return abort_move(vm, report.trouble.message if report.trouble is not None else "")
    return VmChange(vm=vm)


def abort_move(vm: Vm, why: str) -> VmChange:
    """Abort a move: the target removes the VM first, the source keeps it until then."""
    assert vm.other is not None
    assert vm.moving is not None
    generation = vm.generation + 1
    other = _replace(vm.other, generation=generation)
    moving = _replace(vm.moving, phase="aborting", why=why)
    vm = _replace(vm, other=other, moving=moving, generation=generation)
    note = f"the move is given up: {why}"
    return VmChange(vm=vm, hosts=(other.host,), notes=(note,), unmoved=note)


def finish_cold_move(vm: Vm, target: Booking) -> VmChange:
    """Make the target the home of a stopped VM, and let the source, which holds no room, clean up."""
    assert vm.home is not None
    assert vm.moving is not None
    generation = vm.generation + 1
    vm = _replace(
        vm,
        home=_replace(target, generation=generation, since=generation),
        other=_replace(vm.home, generation=generation),
        move=None,
        moving=_replace(vm.moving, phase="cleaning"),
        generation=generation,
        reported="",
        reported_generation=0,
        trouble=None,
        failed_generation=0,
        is_unknown=False,
        why="",
    )
    hosts = tuple(booking.host for booking in (vm.home, vm.other) if booking is not None)
    return VmChange(vm=vm, hosts=hosts, notes=(f"moved to {target.name}",))


def lose_source(vm: Vm) -> VmChange:
    """Continue a move whose source, so far its home, is proved dead; its claims have left already.

    If the VM may have arrived and has disks, only the target can tell, and running on is better than a new start. The
    target's next report decides, so it should be asked to register again.
    """
    assert vm.moving is not None
    if vm.power == "absent" or vm.moving.phase not in _UNDECIDED:
        return VmChange(vm=vm)
    may_have_arrived = vm.moving.phase == "copying" and (bool(vm.spec.disks) or vm.reported == "left")
    if may_have_arrived:
        return VmChange(
            vm=_replace(vm, why="its source is gone, and the target has not reported yet whether it arrived")
        )
    return abort_move(vm, "its source is gone")


def leave_second_host(vm: Vm) -> VmChange:
    """Record that the second host has nothing of the VM any more."""
    moving = vm.moving
    if vm.power != "absent" and (moving is None or moving.phase not in ("cleaning", "aborting")):
        return VmChange(vm=vm)
    facts = departures(vm.move)
    is_abort = moving is not None and moving.phase == "aborting"
    vm = _replace(vm, other=None, move=None, moving=None)
    if vm.home is None:
        change = leave_last_host(vm)
        return _replace(change, facts=(*facts, *change.facts))
    if vm.power == "absent":
        return VmChange(vm=vm, facts=facts)
    if is_abort:  # the source keeps it, by a newer order
        generation = vm.generation + 1
        home = _replace(vm.home, generation=generation)
        vm = _replace(vm, generation=generation, home=home, trouble=None, failed_generation=0)
        return VmChange(vm=vm, facts=facts, hosts=(home.host,))
    change = settle_vm(vm)
    return _replace(change, facts=(*facts, *change.facts))


def lose_second_host(vm: Vm) -> VmChange:
    """Record proof that the second host of a move is dead."""
    moving = vm.moving
    if moving is None or moving.phase not in _UNDECIDED or vm.power == "absent":
        return leave_second_host(vm)
    why = "the target is gone"
    change = leave_second_host(_replace(vm, moving=_replace(moving, phase="aborting", why=why)))
    note = f"the move is given up: {why}"
    return _replace(change, notes=(note, *change.notes), unmoved=note)


def _copying(vm: Vm, report: VmReport) -> VmChange:
    """Let the source send, by the same order: the target is ready, perhaps at a new address."""
    assert vm.other is not None
    assert vm.moving is not None
    moving = _replace(vm.moving, phase="copying", address=report.landing_address, secret=report.landing_secret)
    if moving == vm.moving:
        return VmChange(vm=vm)
    assert vm.home is not None
    home = _replace(vm.home, generation=vm.other.generation)
    return VmChange(vm=_replace(vm, moving=moving, home=home), hosts=(home.host,))


def _arrived(vm: Vm, report: VmReport) -> VmChange:
    """Make the target the home, by a newer generation: the VM runs there."""
    assert vm.other is not None
    assert vm.moving is not None
    generation = vm.generation + 1
    source, target, whom = vm.home, _replace(vm.other, generation=generation), vm.moving.makes_room
    vm = _replace(
        vm,
        home=target,
        other=None if source is None else _replace(source, generation=generation),
        run=vm.move,
        move=vm.run,
        moving=None if source is None else _replace(vm.moving, phase="cleaning", address="", secret=""),
        generation=generation,
        reported=report.state,
        reported_generation=report.generation,
        reported_restarts=report.restarts,
        trouble=None,
        failed_generation=0,
        is_unknown=False,
        moved_for=whom,
        why="",
    )
    hosts = (target.host,) if source is None else (target.host, source.host)
    note = f"moved to {target.name}{f' to make room for {whom}' if whom else ''}"
    return VmChange(vm=vm, hosts=hosts, notes=(note,))
