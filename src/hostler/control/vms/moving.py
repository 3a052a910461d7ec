"""The course of a migration: prepare the target, copy, commit ownership by a newer generation, clean up. Pure.

The VM is the source's until the target says that it runs there. Giving up lets the target go first; only when it has
gone does the source get a newer order, because an agent that sent its VM away starts it again only by such a one.
Whoever lets go keeps its hands off disks on shared storage: they are those of the side that has the VM. A stopped VM
has nothing to copy: it is the target's as soon as that was decided, and then the source cleans up.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import VmReport
from hostler.control.vms.guests import departures
from hostler.control.vms.settling import homeless, settled
from hostler.control.vms.state import Booking, Change, Vm

__all__ = ["given_up", "has_failed", "other_gone", "other_lost", "other_reported", "rehomed", "source_lost"]

_replace = msgspec.structs.replace
_UNDECIDED = ("preparing", "copying")


def has_failed(report: VmReport, generation: int) -> bool:
    """Say whether a host has given up on an order."""
    is_final = report.trouble is not None and report.trouble.kind == "permanent"
    return is_final and report.failed_generation == generation


def other_reported(vm: Vm, report: VmReport) -> Change:
    """Take in what the second host of a move says."""
    other, moving = vm.other, vm.moving
    if other is None or moving is None or vm.power == "absent" or report.generation > other.generation:
        return Change(vm=vm)
    if moving.phase not in _UNDECIDED:
        return Change(vm=vm)
    if report.state == "running" and report.generation == other.generation:
        return _arrived(vm, report)
    if vm.home is None:  # nobody sends it any more, so what has not arrived by now never will
        return Change(vm=vm) if report.state == "running" else given_up(vm, "its source is gone")
    if report.state == "landing" and report.landing_address:
        return _copying(vm, report)
    if has_failed(report, other.generation):
        return given_up(vm, report.trouble.message if report.trouble is not None else "")
    return Change(vm=vm)


def given_up(vm: Vm, why: str) -> Change:
    """Let the target go first; the source keeps what it has until then."""
    assert vm.other is not None
    assert vm.moving is not None
    generation = vm.generation + 1
    other = _replace(vm.other, generation=generation)
    moving = _replace(vm.moving, phase="aborting", why=why)
    vm = _replace(vm, other=other, moving=moving, generation=generation)
    note = f"the move is given up: {why}"
    return Change(vm=vm, hosts=(other.host,), notes=(note,), unmoved=note)


def rehomed(vm: Vm, target: Booking) -> Change:
    """Make a host the home of a VM that is stopped, and let its source, which holds no room for it, clean up."""
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
    return Change(vm=vm, hosts=hosts, notes=(f"moved to {target.name}",))


def source_lost(vm: Vm) -> Change:
    """Go on with a move whose source, until now its home, is proved dead; its claims have left already.

    Where the VM may have arrived and has disks, only the target can say so, and to let it go on is better than to
    start it anew. The target's next report decides, so it should be asked to register anew.
    """
    assert vm.moving is not None
    if vm.power == "absent" or vm.moving.phase not in _UNDECIDED:
        return Change(vm=vm)
    may_have_arrived = vm.moving.phase == "copying" and (bool(vm.spec.disks) or vm.reported == "left")
    if may_have_arrived:
        return Change(vm=_replace(vm, why="its source is gone, and the target has not told yet whether it arrived"))
    return given_up(vm, "its source is gone")


def other_gone(vm: Vm) -> Change:
    """Take in that the second host has nothing of the VM any more."""
    moving = vm.moving
    if vm.power != "absent" and (moving is None or moving.phase not in ("cleaning", "aborting")):
        return Change(vm=vm)
    facts = departures(vm.move)
    is_abort = moving is not None and moving.phase == "aborting"
    vm = _replace(vm, other=None, move=None, moving=None)
    if vm.home is None:
        change = homeless(vm)
        return _replace(change, facts=(*facts, *change.facts))
    if vm.power == "absent":
        return Change(vm=vm, facts=facts)
    if is_abort:  # the source keeps it, by a newer order
        generation = vm.generation + 1
        home = _replace(vm.home, generation=generation)
        vm = _replace(vm, generation=generation, home=home, trouble=None, failed_generation=0)
        return Change(vm=vm, facts=facts, hosts=(home.host,))
    change = settled(vm)
    return _replace(change, facts=(*facts, *change.facts))


def other_lost(vm: Vm) -> Change:
    """Take in proof that the second host of a move is dead."""
    moving = vm.moving
    if moving is None or moving.phase not in _UNDECIDED or vm.power == "absent":
        return other_gone(vm)
    why = "the target is gone"
    change = other_gone(_replace(vm, moving=_replace(moving, phase="aborting", why=why)))
    note = f"the move is given up: {why}"
    return _replace(change, notes=(note, *change.notes), unmoved=note)


def _copying(vm: Vm, report: VmReport) -> Change:
    """The target is ready, perhaps in another place than before: let the source send, by the same order."""
    assert vm.other is not None
    assert vm.moving is not None
    moving = _replace(vm.moving, phase="copying", address=report.landing_address, secret=report.landing_secret)
    if moving == vm.moving:
        return Change(vm=vm)
    assert vm.home is not None
    home = _replace(vm.home, generation=vm.other.generation)
    return Change(vm=_replace(vm, moving=moving, home=home), hosts=(home.host,))


def _arrived(vm: Vm, report: VmReport) -> Change:
    """It runs at the target: from now on that is its home, by a newer generation."""
    assert vm.other is not None
    assert vm.moving is not None
    generation = vm.generation + 1
    source, target = vm.home, _replace(vm.other, generation=generation)
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
        why="",
    )
    hosts = (target.host,) if source is None else (target.host, source.host)
    return Change(vm=vm, hosts=hosts, notes=(f"moved to {target.name}",))
