"""What users want of a VM: each request gives a new VM value, facts for the engine, and changed orders. Pure.

A request raises the generation. It never takes room: a start, a growth or a move is a claim that the engine decides,
and orders contain only what is booked.
"""

from __future__ import annotations

import msgspec

from hostler.control.vms.errors import MigratingError, NotMovableError, ProtectedError, WrongStateError
from hostler.control.vms.guests import (
    arrival,
    check_guest,
    claim_update,
    departure,
    departures,
    guest_of,
    new_claim,
    with_run,
)
from hostler.control.vms.moves import abort_move
from hostler.control.vms.settlement import settle_vm
from hostler.control.vms.spec import VmSpec, check_vm_spec
from hostler.control.vms.state import Move, Power, Vm, VmChange
from hostler.errors import Cause, InputError
from hostler.model import Event

__all__ = [
    "cancel_move", "create", "delete", "is_at_rest", "migrate", "pause", "protect", "resize", "restart", "resume",
    "start", "stop", "vacate",
]  # fmt: skip

_replace = msgspec.structs.replace
_FIXED = ("disks", "kernel", "initrd", "kernel_arguments", "network", "devices", "gang")  # of a VM that exists


def create(
    identity: str, project: str, name: str, spec: VmSpec, *, is_protected: bool = False, fails_unplaced: bool = False
) -> VmChange:
    """Ask for a new VM. It waits for a place, or fails if there is no room at the first attempt."""
    spec = check_vm_spec(spec)
    check_guest(spec, project)
    vm = Vm(
        id=identity,
        project=project,
        name=name,
        spec=spec,
        is_protected=is_protected,
        fails_unplaced=fails_unplaced,
    )
    vm, fact = with_run(vm)
    return VmChange(vm=vm, facts=(fact,))


def start(vm: Vm) -> VmChange:
    """Start it; a VM that gave its room back waits for room on its host."""
    _refuse_if_going(vm)
    if vm.power == "running":
        return VmChange(vm=vm)
    _refuse_if_moving(vm)
    return _wanting(vm, "running")


def stop(vm: Vm) -> VmChange:
    """Stop it; it keeps its disk and its host."""
    _refuse_if_going(vm)
    if vm.power == "stopped":
        return VmChange(vm=vm)
    _refuse_if_moving(vm)
    facts: list[Event] = [*departures(vm.grow)]
    run = vm.run
    if run is not None and not run.is_bound:
        facts.append(departure(run))
        run = None
    # A VM that is nowhere, or has nothing but its disk, is stopped already.
    vm = _replace(vm, power="stopped", run=run, grow=None, why="", made_way="", moved_for="", fails_unplaced=False)
    if vm.home is None:
        generation = vm.generation + 1
        vm = _replace(vm, generation=generation, observed_generation=generation)
        return VmChange(vm=vm, facts=tuple(facts))
    vm, hosts = _ordered_anew(vm)
    return VmChange(vm=vm, facts=tuple(facts), hosts=hosts)


def pause(vm: Vm) -> VmChange:
    """Stop its processors and keep its memory."""
    _refuse_if_going(vm)
    if vm.power == "paused":
        return VmChange(vm=vm)
    _refuse_if_moving(vm)
    if vm.power != "running" or not vm.has_room:
        raise WrongStateError(f"VM {vm.name} does not run", hint="only a VM that runs can be paused")
    return _wanting(vm, "paused")


def resume(vm: Vm) -> VmChange:
    """Let a paused VM run again; a VM that waits for a place cannot be paused."""
    _refuse_if_going(vm)
    if vm.power == "running" and vm.run is not None and not vm.run.is_bound:
        raise WrongStateError(f"VM {vm.name} is not paused: it waits for a place", hint="it runs as soon as it has one")
    if vm.power == "running":
        return VmChange(vm=vm)
    if vm.power != "paused":
        raise WrongStateError(f"VM {vm.name} is not paused", hint="start it instead")
    return _wanting(vm, "running")


def restart(vm: Vm) -> VmChange:
    """Stop it and start it again, once."""
    _refuse_if_going(vm)
    _refuse_if_moving(vm)
    if vm.power != "running" or not vm.has_room:
        raise WrongStateError(f"VM {vm.name} does not run", hint="start it instead")
    vm, hosts = _ordered_anew(_replace(vm, restarts=vm.restarts + 1))
    return VmChange(vm=vm, hosts=hosts)


def resize(vm: Vm, spec: VmSpec) -> VmChange:
    """Change its size or its constraints.

    A running VM waits for the room of its growth. Room of a shrink is given back when the host has done it.
    """
    _refuse_if_going(vm)
    _refuse_if_moving(vm)
    spec = check_vm_spec(spec)
    _check_same(vm.spec, spec)
    check_guest(spec, vm.project)
    facts: list[Event] = [*departures(vm.grow)]
    before, vm = vm, _replace(vm, spec=spec, grow=None, generation=vm.generation + 1)
    if before.run is None:
        if vm.home is None:
            return VmChange(vm=_replace(vm, observed_generation=vm.generation), facts=tuple(facts))
        vm, hosts = _ordered_anew(vm)
        return VmChange(vm=vm, facts=tuple(facts), hosts=hosts)
    run = _replace(before.run, version=before.run.version + 1)
    if not run.is_bound:
        run = _replace(run, size=vm.unbooked)
        vm = _replace(vm, run=run)
        fact = claim_update(vm, run)
        is_new = fact.guest.spec != guest_of(before, before.run).spec  # else it waits on, for the same reason
        return VmChange(vm=_replace(vm, why="" if is_new else vm.why), facts=(*facts, fact))
    vm, hosts = _ordered_anew(_replace(vm, run=run))
    vm = _replace(vm, resized=vm.generation)
    facts.append(claim_update(vm, run))
    if vm.power != "stopped" or vm.spec.reserve:  # else what it has goes back, and a start asks for all of it
        vm, growth = _growing(vm)
        facts += growth
    return VmChange(vm=vm, facts=tuple(facts), hosts=hosts)


def protect(vm: Vm, *, is_protected: bool) -> VmChange:
    """Protect it from deletion, or end that."""
    _refuse_if_going(vm)
    return VmChange(vm=_replace(vm, is_protected=is_protected))


def migrate(vm: Vm, target: str = "") -> VmChange:
    """Move it to another host that the engine chooses: live if it runs, cold if it is stopped.

    A stopped VM asks for the room that it would need there, and gives it back once it was found.
    """
    _refuse_if_going(vm)
    _refuse_if_moving(vm)
    if not vm.spec.is_movable:
        hint = "VMs without disks, or with disks on shared storage, can move"
        raise NotMovableError(f"VM {vm.name} cannot be moved: it has a disk on its host", hint=hint)
    is_cold = vm.power == "stopped" and is_at_rest(vm)
    runs = vm.power == "running" and vm.has_room and not vm.is_evicted
    if vm.home is None or not (is_cold or runs):
        raise WrongStateError(f"VM {vm.name} does not run", hint=_how_it_gets_elsewhere(vm))
    if vm.grow is not None:
        raise MigratingError(f"VM {vm.name} waits for room to grow", hint="wait for it, or resize it back")
    if vm.is_unknown:
        raise WrongStateError(f"the host of VM {vm.name} is silent", hint="wait until it answers again")
    if target == vm.home.name:
        raise InputError(f"VM {vm.name} is on host {target} already", hint="name another host, or none")
    if target and vm.spec.host_name not in ("", target):
        hint = "change its host_name first, by a resize"
        what = Cause("pinned", "vm", vm.name)
        raise NotMovableError(f"VM {vm.name} may only be on host {vm.spec.host_name}", hint=hint, cause=what)
    size = vm.wanted if is_cold else vm.booked
    vm, move = new_claim(_replace(vm, generation=vm.generation + 1), size)
    vm = _replace(vm, move=move, moving=Move())
    fact = arrival(vm, move)
    if target:
        spec = _replace(fact.guest.spec, host_name=target)
        fact = _replace(fact, guest=_replace(fact.guest, spec=spec))
    return VmChange(vm=vm, facts=(fact,))


def vacate(vm: Vm) -> VmChange:
    """Let a stopped VM leave a host that is to be emptied: it starts anywhere, now if it waits for room.

    What its host still has of it are remains from then on: they are not started, and go when they are not needed.
    """
    _refuse_if_going(vm)
    _refuse_if_moving(vm)
    if vm.home is None or vm.is_evicted:
        return VmChange(vm=vm)
    if not vm.spec.is_movable:
        hint = "it stays until it is deleted, or until its host may be used again"
        raise NotMovableError(f"VM {vm.name} has a disk on its host", hint=hint)
    if not is_at_rest(vm):
        raise WrongStateError(f"VM {vm.name} is not at rest", hint="migrate it, or stop it first")
    facts = departures(vm.run)
    vm = _replace(
        vm,
        home=None,
        run=None,
        reported="",
        reported_generation=0,
        trouble=None,
        failed_generation=0,
        generation=vm.generation + 1,
        why="",
    )
    if vm.power == "stopped":
        return VmChange(vm=_replace(vm, observed_generation=vm.generation), facts=facts)
    vm, fact = with_run(vm)
    return VmChange(vm=vm, facts=(*facts, fact))


def is_at_rest(vm: Vm) -> bool:
    """Say whether the host reported the VM as stopped and has no order, nor booked room, to run it."""
    is_told = vm.home is not None and vm.reported_generation == vm.home.generation
    is_booked = vm.disk is not None or vm.moving is not None or vm.has_room
    return is_told and vm.reported in ("stopped", "left") and not is_booked and not vm.is_evicted


def cancel_move(vm: Vm) -> VmChange:
    """Cancel a move, unless a host has reported that the VM left or arrived: then it would have to start again."""
    _refuse_if_going(vm)
    if vm.moving is None:
        raise WrongStateError(f"VM {vm.name} does not move", hint="nothing is to be called off")
    if vm.moving.phase == "placing":
        change = settle_vm(_replace(vm, move=None, moving=None, why="", generation=vm.generation + 1))
        return _replace(change, facts=(*departures(vm.move), *change.facts), unmoved="it was called off")
    if vm.moving.phase == "copying" and vm.home is None:
        raise MigratingError(f"the host that VM {vm.name} comes from is gone", hint="wait until it has arrived")
    if vm.moving.phase == "copying" and vm.reported == "left":
        where = f" on {vm.other.name}" if vm.other is not None else ""
        raise WrongStateError(f"VM {vm.name} has arrived{where} already", hint="migrate it back")
    if vm.moving.phase in ("preparing", "copying"):
        return abort_move(vm, "it was called off")
    if vm.moving.phase == "cleaning":
        where = f" on {vm.home.name}" if vm.home is not None else ""
        raise WrongStateError(f"VM {vm.name} has arrived{where} already", hint="migrate it back")
    return VmChange(vm=vm)


def delete(vm: Vm) -> VmChange:
    """Delete it with its disks, as soon as its hosts report that they have removed it."""
    if vm.power == "absent":
        return VmChange(vm=vm)
    if vm.is_protected:
        what, hint = Cause("protected", "vm", vm.name), "take the protection off first"
        raise ProtectedError(f"VM {vm.name} is protected from deletion", hint=hint, cause=what)
    facts: list[Event] = [*departures(vm.grow)]
    run, move = vm.run, vm.move
    if run is not None and not run.is_bound:
        facts.append(departure(run))
        run = None
    if move is not None and not move.is_bound:
        facts.append(departure(move))
        move = None
    moving = vm.moving if vm.other is not None else None
    vm = _replace(vm, power="absent", run=run, move=move, grow=None, moving=moving, why="")
    if run is not None:
        run = _replace(run, version=run.version + 1)
        vm = _replace(vm, run=run)
        facts.append(claim_update(vm, run, is_leaving=True))
    if vm.home is None and vm.other is None:
        return _gone(vm, facts)
    vm, hosts = _ordered_anew(vm)
    if vm.other is not None:
        other = _replace(vm.other, generation=vm.generation)
        vm, hosts = _replace(vm, other=other), (*hosts, other.host)
    return VmChange(vm=vm, facts=tuple(facts), hosts=hosts)


def _gone(vm: Vm, facts: list[Event]) -> VmChange:
    facts += departures(vm.run, vm.disk, vm.move)
    vm = _replace(vm, run=None, disk=None, move=None, moving=None, is_gone=True, generation=vm.generation + 1)
    return VmChange(vm=_replace(vm, observed_generation=vm.generation), facts=tuple(facts))


def _wanting(vm: Vm, power: Power) -> VmChange:
    """Return a VM that shall run or be paused, with a claim if it has given its room back."""
    has_disks = vm.has_disks and not vm.is_lost  # one that was lost gets new ones
    vm = _replace(vm, power=power, has_disks=has_disks, is_lost=False, generation=vm.generation + 1)
    vm = _replace(vm, trouble=None, failed_generation=0)
    if vm.run is None:
        vm, fact = with_run(_replace(vm, why=""))
        return VmChange(vm=vm, facts=(fact,))
    if not vm.run.is_bound:
        return VmChange(vm=vm)
    vm, hosts = _ordered_anew(vm)
    vm, facts = _growing(vm)
    return VmChange(vm=vm, facts=tuple(facts), hosts=hosts)


def _growing(vm: Vm) -> tuple[Vm, list[Event]]:
    """Return a VM that claims its missing size; one that is leaving asks for everything later."""
    growth = vm.wanted.beyond(vm.booked)
    if vm.grow is not None or vm.is_evicted or not (growth.cpu_millis or growth.memory_bytes):
        return vm, []
    vm, grow = new_claim(vm, _replace(growth, disk_bytes=0))
    vm = _replace(vm, grow=grow)
    return vm, [arrival(vm, grow)]


def _ordered_anew(vm: Vm) -> tuple[Vm, tuple[str, ...]]:
    """Return a VM with a new order for its host."""
    generation = vm.generation + 1
    if vm.home is None:
        return _replace(vm, generation=generation), ()
    home = _replace(vm.home, generation=generation)
    return _replace(vm, generation=generation, home=home), (home.host,)


def _how_it_gets_elsewhere(vm: Vm) -> str:
    """Say how a VM that could move, but does not run, gets to another host."""
    if vm.power == "paused":
        return "resume it, and migrate it then"
    if vm.power == "running":
        return "wait until it runs"
    if vm.home is None:
        return "start it: it is placed again"
    if vm.spec.reserve:
        return "start it, and migrate it while it runs: stopped, it keeps its room on its host"
    recreate = "" if vm.spec.disks else "; or delete it and create it again: it has no disk to lose"
    return f"wait until it is stopped, and migrate it then{recreate}"


def _check_same(old: VmSpec, new: VmSpec) -> None:
    for name in _FIXED:
        if getattr(old, name) != getattr(new, name):
            raise InputError(f"{name}: it cannot change once the VM exists", hint="create another VM with it")


def _refuse_if_going(vm: Vm) -> None:
    if vm.power == "absent":
        raise WrongStateError(f"VM {vm.name} is being deleted", hint="create another one")


def _refuse_if_moving(vm: Vm) -> None:
    if vm.moving is not None:
        what, hint = Cause("moving", "vm", vm.name), "wait until it has arrived"
        raise MigratingError(f"VM {vm.name} is moving to another host", hint=hint, cause=what)
