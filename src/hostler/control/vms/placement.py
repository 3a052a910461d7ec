"""Applies the engine's decisions to a VM's bookings. Pure; the leader uses it in its transactions.

The owner may have changed or canceled the claim since. Then the decision fails, and the engine gets a fact that says
so.
"""

from __future__ import annotations

import msgspec

from hostler.control.vms.guests import claim_update, departure, departures
from hostler.control.vms.moves import finish_cold_move
from hostler.control.vms.settlement import settle_vm
from hostler.control.vms.state import Booking, Claim, Vm, VmChange
from hostler.model import BindFailed, EvictFailed, GuestBound

__all__ = ["book_placement", "evict_vm", "note_rejection", "note_wait"]

_replace = msgspec.structs.replace


def book_placement(vm: Vm, uid: str, version: int, home: Booking, devices: tuple[int, ...]) -> VmChange:
    """Book a placement: the claim has room on a host."""
    claim = _claim(vm, uid)
    if claim is None or claim.is_bound or claim.version != version or vm.power == "absent":
        why = "the VM changed meanwhile" if claim is not None else "it is not needed any more"
        return VmChange(vm=vm, facts=(BindFailed(uid=uid, host=home.name, reason=why),))
    taken = _replace(claim, is_bound=True, devices=devices)
    fact = GuestBound(uid=uid, host=home.name)
    if vm.grow is not None and uid == vm.grow.uid:
        return _grown(vm, taken, fact)
    if vm.move is not None and uid == vm.move.uid:
        return _landing(vm, taken, home, fact)
    if vm.home is not None and vm.home.host != home.host:
        why = "the VM's disk is on another host of that name"
        return VmChange(vm=vm, facts=(BindFailed(uid=uid, host=home.name, reason=why),))
    generation = vm.generation + 1
    home = _replace(home, generation=generation, since=generation if vm.home is None else vm.home.since)
    vm = _replace(
        vm,
        run=taken,
        home=home,
        generation=generation,
        fails_unplaced=False,
        made_way="",
        moved_for="",
        why="",
        trouble=None,
        failed_generation=0,
    )
    if vm.reported in ("left", "absent"):
        vm = _replace(vm, reported="")
    return VmChange(vm=vm, facts=(fact,), hosts=(home.host,))


def note_wait(vm: Vm, uid: str, why: str, *, at_home: str = "", is_promised: bool = False) -> VmChange:
    """Note why a claim waits. A VM that had to be placed at once is dropped, and a move is aborted.

    ``at_home`` is the reason for an owner who named no host: the VM just stays on its own. If room is promised, neither
    happens, because other VMs are being stopped for it.
    """
    claim = _claim(vm, uid)
    if claim is None or claim.is_bound:
        return VmChange(vm=vm)
    if is_promised:
        return VmChange(vm=_replace(vm, why=why))
    if vm.move is not None and uid == vm.move.uid:
        leaving = vm.leaving
        if leaving is not None and leaving.generation == vm.generation:  # else its owner moves it, perhaps to one host
            leaving = _replace(leaving, why=why)
        change = settle_vm(_replace(vm, move=None, moving=None, leaving=leaving, why=""))
        unmoved = f"not moved: {why}"
        return _replace(change, facts=(departure(claim), *change.facts), notes=(unmoved,), unmoved=unmoved)
    if vm.fails_unplaced and vm.home is None:
        vm = _replace(vm, run=None, why=why, power="absent", is_gone=True)
        return VmChange(vm=vm, facts=(departure(claim),), failed=f"not placed: {why}")
    return VmChange(vm=_replace(vm, why=at_home if at_home and not vm.spec.host_name else why))


def note_rejection(vm: Vm, uid: str, version: int, why: str) -> VmChange:
    """Note why the engine rejected a claim, unless the claim has changed since; see ``note_wait``."""
    claim = _claim(vm, uid)
    if claim is None or claim.version != version:
        return VmChange(vm=vm)
    return note_wait(vm, uid, why)


def evict_vm(vm: Vm, uid: str, why: str) -> VmChange:
    """Stop a VM that makes room for another: it keeps its disk and waits again."""
    if vm.run is None or vm.run.uid != uid or not vm.run.is_bound or vm.home is None:
        return VmChange(vm=vm, facts=(EvictFailed(uid=uid, reason="it is not there"),))
    if vm.moving is not None:
        return VmChange(vm=vm, facts=(EvictFailed(uid=uid, reason="it is moving to another host"),))
    if vm.is_evicted or vm.power == "absent":
        return VmChange(vm=vm)  # its end is under way
    generation = vm.generation + 1
    facts = departures(vm.grow)
    home = _replace(vm.home, generation=generation)
    vm = _replace(vm, is_evicted=True, made_way=why, generation=generation, home=home, grow=None, moved_for="", why=why)
    note = why.replace("it makes room", "stopped to make room", 1)
    return VmChange(vm=vm, facts=facts, hosts=(home.host,), notes=(note,))


def _claim(vm: Vm, uid: str) -> Claim | None:
    return next((claim for claim in (vm.run, vm.grow, vm.move) if claim is not None and claim.uid == uid), None)


def _grown(vm: Vm, grow: Claim, fact: GuestBound) -> VmChange:
    """Merge the growth of a VM into its claim: one claim instead of two, with no room lost in between."""
    run = vm.run
    if run is None or vm.home is None or not run.is_bound:
        return VmChange(vm=vm, facts=(BindFailed(uid=grow.uid, host=fact.host, reason="the VM does not run"),))
    larger = _replace(
        run.size,
        cpu_millis=run.size.cpu_millis + grow.size.cpu_millis,
        memory_bytes=run.size.memory_bytes + grow.size.memory_bytes,
    )
    run = _replace(run, size=larger, version=run.version + 1)
    generation = vm.generation + 1
    home = _replace(vm.home, generation=generation)
    vm = _replace(vm, run=run, grow=None, home=home, generation=generation, resized=generation, why="")
    facts = (fact, claim_update(vm, run), departure(grow))
    return VmChange(vm=vm, facts=facts, hosts=(home.host,))


def _landing(vm: Vm, move: Claim, target: Booking, fact: GuestBound) -> VmChange:
    """Prepare the target of a move; for a stopped VM the move is then finished."""
    generation = vm.generation + 1
    if vm.moving is None or vm.home is None or vm.home.host == target.host:
        return VmChange(vm=vm, facts=(BindFailed(uid=move.uid, host=fact.host, reason="it does not move any more"),))
    if vm.power == "stopped":
        change = finish_cold_move(vm, target)
        return _replace(change, facts=(fact, departure(move)))
    vm = _replace(
        vm,
        move=move,
        other=_replace(target, generation=generation, since=generation),
        moving=_replace(vm.moving, phase="preparing"),
        generation=generation,
        why="",
    )
    return VmChange(vm=vm, facts=(fact,), hosts=(target.host,))
