"""What the engine decided about a VM's claims, carried into its books. Pure; used by the leader in its transactions.

A decision may be about a claim that its owner has changed or given up since: then it fails, and the engine is told so.
"""

from __future__ import annotations

import msgspec

from hostler.control.vms.guests import departure, departures, regrown
from hostler.control.vms.moving import rehomed
from hostler.control.vms.settling import settled
from hostler.control.vms.state import Booking, Change, Claim, Vm
from hostler.model import BindFailed, EvictFailed, GuestBound

__all__ = ["bound", "evicted", "held", "rejected"]

_replace = msgspec.structs.replace


def bound(vm: Vm, uid: str, version: int, home: Booking, devices: tuple[int, ...]) -> Change:
    """Book what was decided: a claim has room on a host."""
    claim = _claim(vm, uid)
    if claim is None or claim.is_bound or claim.version != version or vm.power == "absent":
        why = "the VM changed meanwhile" if claim is not None else "nobody wants it any more"
        return Change(vm=vm, facts=(BindFailed(uid=uid, host=home.name, reason=why),))
    taken = _replace(claim, is_bound=True, devices=devices)
    fact = GuestBound(uid=uid, host=home.name)
    if vm.grow is not None and uid == vm.grow.uid:
        return _grown(vm, taken, fact)
    if vm.move is not None and uid == vm.move.uid:
        return _landing(vm, taken, home, fact)
    if vm.home is not None and vm.home.host != home.host:
        why = "the VM's disk is on another host of that name"
        return Change(vm=vm, facts=(BindFailed(uid=uid, host=home.name, reason=why),))
    generation = vm.generation + 1
    home = _replace(home, generation=generation, since=generation if vm.home is None else vm.home.since)
    vm = _replace(
        vm,
        run=taken,
        home=home,
        generation=generation,
        fails_unplaced=False,
        made_way="",
        why="",
        trouble=None,
        failed_generation=0,
    )
    if vm.reported in ("left", "absent"):
        vm = _replace(vm, reported="")
    return Change(vm=vm, facts=(fact,), hosts=(home.host,))


def held(vm: Vm, uid: str, why: str, *, at_home: str = "", is_promised: bool = False) -> Change:
    """Note why a claim waits. A VM that was to be placed at once or not at all goes; a move is given up.

    ``at_home`` is the same in words for an owner who named no host: the VM just stays on its own.
    Neither as long as room is promised: others are being stopped for it then, and for nothing if it went.
    """
    claim = _claim(vm, uid)
    if claim is None or claim.is_bound:
        return Change(vm=vm)
    if is_promised:
        return Change(vm=_replace(vm, why=why))
    if vm.move is not None and uid == vm.move.uid:
        leaving = vm.leaving
        if leaving is not None and leaving.generation == vm.generation:  # else its owner moves it, perhaps to one host
            leaving = _replace(leaving, why=why)
        change = settled(_replace(vm, move=None, moving=None, leaving=leaving, why=""))
        unmoved = f"not moved: {why}"
        return _replace(change, facts=(departure(claim), *change.facts), notes=(unmoved,), unmoved=unmoved)
    if vm.fails_unplaced and vm.home is None:
        vm = _replace(vm, run=None, why=why, power="absent", is_gone=True)
        return Change(vm=vm, facts=(departure(claim),), failed=f"not placed: {why}")
    return Change(vm=_replace(vm, why=at_home if at_home and not vm.spec.host_name else why))


def rejected(vm: Vm, uid: str, version: int, why: str) -> Change:
    """Note why the engine did not take what it was told of a claim, unless that has changed since: see ``held``."""
    claim = _claim(vm, uid)
    if claim is None or claim.version != version:
        return Change(vm=vm)
    return held(vm, uid, why)


def evicted(vm: Vm, uid: str, why: str) -> Change:
    """Make way for another: it is stopped, keeps its disk, and waits again."""
    if vm.run is None or vm.run.uid != uid or not vm.run.is_bound or vm.home is None:
        return Change(vm=vm, facts=(EvictFailed(uid=uid, reason="it is not there"),))
    if vm.moving is not None:
        return Change(vm=vm, facts=(EvictFailed(uid=uid, reason="it is moving to another host"),))
    if vm.is_evicted or vm.power == "absent":
        return Change(vm=vm)  # its end is under way
    generation = vm.generation + 1
    facts = departures(vm.grow)
    home = _replace(vm.home, generation=generation)
    vm = _replace(vm, is_evicted=True, made_way=why, generation=generation, home=home, grow=None, why=why)
    return Change(vm=vm, facts=facts, hosts=(home.host,), notes=(why,))


def _claim(vm: Vm, uid: str) -> Claim | None:
    return next((claim for claim in (vm.run, vm.grow, vm.move) if claim is not None and claim.uid == uid), None)


def _grown(vm: Vm, grow: Claim, fact: GuestBound) -> Change:
    """Merge what a VM grows by into what it has: one claim instead of two, with no room lost in between."""
    run = vm.run
    if run is None or vm.home is None or not run.is_bound:
        return Change(vm=vm, facts=(BindFailed(uid=grow.uid, host=fact.host, reason="the VM does not run"),))
    larger = _replace(
        run.size,
        cpu_millis=run.size.cpu_millis + grow.size.cpu_millis,
        memory_bytes=run.size.memory_bytes + grow.size.memory_bytes,
    )
    run = _replace(run, size=larger, version=run.version + 1)
    generation = vm.generation + 1
    home = _replace(vm.home, generation=generation)
    vm = _replace(vm, run=run, grow=None, home=home, generation=generation, resized=generation, why="")
    facts = (fact, regrown(vm, run), departure(grow))
    return Change(vm=vm, facts=facts, hosts=(home.host,))


def _landing(vm: Vm, move: Claim, target: Booking, fact: GuestBound) -> Change:
    """Prepare the other end of a move; one that is stopped has arrived with that."""
    generation = vm.generation + 1
    if vm.moving is None or vm.home is None or vm.home.host == target.host:
        return Change(vm=vm, facts=(BindFailed(uid=move.uid, host=fact.host, reason="it does not move any more"),))
    if vm.power == "stopped":
        change = rehomed(vm, target)
        return _replace(change, facts=(fact, departure(move)))
    vm = _replace(
        vm,
        move=move,
        other=_replace(target, generation=generation, since=generation),
        moving=_replace(vm.moving, phase="preparing"),
        generation=generation,
        why="",
    )
    return Change(vm=vm, facts=(fact,), hosts=(target.host,))
