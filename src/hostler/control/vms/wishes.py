"""What users want of a VM: each wish makes a new VM value, facts for the engine, and says whose orders change. Pure.

A wish raises the generation. Room is never taken here: a start, a growth or a move is a claim that the engine decides,
and orders say only what is booked.
"""

from __future__ import annotations

import msgspec

from hostler.control.vms.errors import MigratingError, NotMovableError, ProtectedError, WrongStateError
from hostler.control.vms.guests import (
    arrival,
    check_guest,
    departure,
    departures,
    guest_of,
    new_claim,
    regrown,
    with_run,
)
from hostler.control.vms.moving import given_up
from hostler.control.vms.settling import settled
from hostler.control.vms.spec import VmSpec, checked
from hostler.control.vms.state import Change, Move, Power, Vm
from hostler.errors import InputError
from hostler.model import Event

__all__ = [
    "cancel_move", "create", "delete", "is_at_rest", "migrate", "pause", "protect", "resize", "restart", "resume",
    "start", "stop", "vacate",
]  # fmt: skip

_replace = msgspec.structs.replace
_FIXED = ("disks", "kernel", "initrd", "kernel_arguments", "network", "devices", "gang")  # of a VM that exists


def create(
    identity: str, project: str, name: str, spec: VmSpec, *, is_protected: bool = False, fails_unplaced: bool = False
) -> Change:
    """Ask for a new VM; it waits for a place, or goes where nobody has room for it at the first look."""
    spec = checked(spec)
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
    return Change(vm=vm, facts=(fact,))


def start(vm: Vm) -> Change:
    """Let it run; a VM that gave its room back waits for room on its host."""
    _refuse_if_going(vm)
    if vm.power == "running":
        return Change(vm=vm)
    _refuse_if_moving(vm)
    return _wanting(vm, "running")


def stop(vm: Vm) -> Change:
    """Let it end; it keeps its disk and its host."""
    _refuse_if_going(vm)
    if vm.power == "stopped":
        return Change(vm=vm)
    _refuse_if_moving(vm)
    facts: list[Event] = [*departures(vm.grow)]
    run = vm.run
    if run is not None and not run.is_bound:
        facts.append(departure(run))
        run = None
    # A VM that is nowhere, or has nothing but its disk, is stopped already.
    vm = _replace(vm, power="stopped", run=run, grow=None, why="", made_way="", fails_unplaced=False)
    if vm.home is None:
        generation = vm.generation + 1
        vm = _replace(vm, generation=generation, observed_generation=generation)
        return Change(vm=vm, facts=tuple(facts))
    vm, hosts = _ordered_anew(vm)
    return Change(vm=vm, facts=tuple(facts), hosts=hosts)


def pause(vm: Vm) -> Change:
    """Stop its processors and keep its memory."""
    _refuse_if_going(vm)
    if vm.power == "paused":
        return Change(vm=vm)
    _refuse_if_moving(vm)
    if vm.power != "running" or not vm.has_room:
        raise WrongStateError(f"VM {vm.name} does not run", hint="only a VM that runs can be paused")
    return _wanting(vm, "paused")


def resume(vm: Vm) -> Change:
    """Let a paused VM run again; one that waits for a place is not paused, whatever it is to be."""
    _refuse_if_going(vm)
    if vm.power == "running" and vm.run is not None and not vm.run.is_bound:
        raise WrongStateError(f"VM {vm.name} is not paused: it waits for a place", hint="it runs as soon as it has one")
    if vm.power == "running":
        return Change(vm=vm)
    if vm.power != "paused":
        raise WrongStateError(f"VM {vm.name} is not paused", hint="start it instead")
    return _wanting(vm, "running")


def restart(vm: Vm) -> Change:
    """End it and start it again, once."""
    _refuse_if_going(vm)
    _refuse_if_moving(vm)
    if vm.power != "running" or not vm.has_room:
        raise WrongStateError(f"VM {vm.name} does not run", hint="start it instead")
    vm, hosts = _ordered_anew(_replace(vm, restarts=vm.restarts + 1))
    return Change(vm=vm, hosts=hosts)


def resize(vm: Vm, spec: VmSpec) -> Change:
    """Change what it takes, or its constraints.

    What a running VM grows by waits for room; what it shrinks by is given back when its host has done it.
    """
    _refuse_if_going(vm)
    _refuse_if_moving(vm)
    spec = checked(spec)
    _check_same(vm.spec, spec)
    check_guest(spec, vm.project)
    facts: list[Event] = [*departures(vm.grow)]
    before, vm = vm, _replace(vm, spec=spec, grow=None, generation=vm.generation + 1)
    if before.run is None:
        if vm.home is None:
            return Change(vm=_replace(vm, observed_generation=vm.generation), facts=tuple(facts))
        vm, hosts = _ordered_anew(vm)
        return Change(vm=vm, facts=tuple(facts), hosts=hosts)
    run = _replace(before.run, version=before.run.version + 1)
    if not run.is_bound:
        run = _replace(run, size=vm.unbooked)
        vm = _replace(vm, run=run)
        fact = regrown(vm, run)
        is_new = fact.guest.spec != guest_of(before, before.run).spec  # else it waits on, for the same reason
        return Change(vm=_replace(vm, why="" if is_new else vm.why), facts=(*facts, fact))
    vm, hosts = _ordered_anew(_replace(vm, run=run))
    vm = _replace(vm, resized=vm.generation)
    facts.append(regrown(vm, run))
    if vm.power != "stopped" or vm.spec.reserve:  # else what it has goes back, and a start asks for all of it
        vm, growth = _growing(vm)
        facts += growth
    return Change(vm=vm, facts=tuple(facts), hosts=hosts)


def protect(vm: Vm, *, is_protected: bool) -> Change:
    """Protect it from deletion, or no longer."""
    _refuse_if_going(vm)
    return Change(vm=_replace(vm, is_protected=is_protected))


def migrate(vm: Vm, target: str = "") -> Change:
    """Move it to another host: while it runs, or as it is stopped, to start there; where to is the engine's choice.

    A stopped one asks for the room that it would have there, and gives it back as soon as it was found.
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
        raise NotMovableError(f"VM {vm.name} may only be on host {vm.spec.host_name}", hint=hint)
    size = vm.wanted if is_cold else vm.booked
    vm, move = new_claim(_replace(vm, generation=vm.generation + 1), size)
    vm = _replace(vm, move=move, moving=Move())
    fact = arrival(vm, move)
    if target:
        spec = _replace(fact.guest.spec, host_name=target)
        fact = _replace(fact, guest=_replace(fact.guest, spec=spec))
    return Change(vm=vm, facts=(fact,))


def vacate(vm: Vm) -> Change:
    """Let a VM that is at rest give up its host, which is to be empty: it starts anywhere, now if it waits for room.

    What its host still has of it are remains from then on: they are not started, and go when nobody needs them.
    """
    _refuse_if_going(vm)
    _refuse_if_moving(vm)
    if vm.home is None or vm.is_evicted:
        return Change(vm=vm)
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
        return Change(vm=_replace(vm, observed_generation=vm.generation), facts=facts)
    vm, fact = with_run(vm)
    return Change(vm=vm, facts=(*facts, fact))


def is_at_rest(vm: Vm) -> bool:
    """Say whether a VM's host has said that it does not run, and has no order, nor room booked, to let it run."""
    is_told = vm.home is not None and vm.reported_generation == vm.home.generation
    is_booked = vm.disk is not None or vm.moving is not None or vm.has_room
    return is_told and vm.reported in ("stopped", "left") and not is_booked and not vm.is_evicted


def cancel_move(vm: Vm) -> Change:
    """Let it stay where it is, as long as nobody has said that it left or arrived: by then it would start anew."""
    _refuse_if_going(vm)
    if vm.moving is None:
        raise WrongStateError(f"VM {vm.name} does not move", hint="nothing is to be called off")
    if vm.moving.phase == "placing":
        change = settled(_replace(vm, move=None, moving=None, why="", generation=vm.generation + 1))
        return _replace(change, facts=(*departures(vm.move), *change.facts), unmoved="it was called off")
    if vm.moving.phase == "copying" and vm.home is None:
        raise MigratingError(f"the host that VM {vm.name} comes from is gone", hint="wait until it has arrived")
    if vm.moving.phase == "copying" and vm.reported == "left":
        where = f" on {vm.other.name}" if vm.other is not None else ""
        raise WrongStateError(f"VM {vm.name} has arrived{where} already", hint="migrate it back")
    if vm.moving.phase in ("preparing", "copying"):
        return given_up(vm, "it was called off")
    if vm.moving.phase == "cleaning":
        where = f" on {vm.home.name}" if vm.home is not None else ""
        raise WrongStateError(f"VM {vm.name} has arrived{where} already", hint="migrate it back")
    return Change(vm=vm)


def delete(vm: Vm) -> Change:
    """Let it go, disks included; where somebody has it, when that one says so."""
    if vm.power == "absent":
        return Change(vm=vm)
    if vm.is_protected:
        raise ProtectedError(f"VM {vm.name} is protected from deletion", hint="take the protection off first")
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
        facts.append(regrown(vm, run, is_leaving=True))
    if vm.home is None and vm.other is None:
        return _gone(vm, facts)
    vm, hosts = _ordered_anew(vm)
    if vm.other is not None:
        other = _replace(vm.other, generation=vm.generation)
        vm, hosts = _replace(vm, other=other), (*hosts, other.host)
    return Change(vm=vm, facts=tuple(facts), hosts=hosts)


def _gone(vm: Vm, facts: list[Event]) -> Change:
    facts += departures(vm.run, vm.disk, vm.move)
    vm = _replace(vm, run=None, disk=None, move=None, moving=None, is_gone=True, generation=vm.generation + 1)
    return Change(vm=_replace(vm, observed_generation=vm.generation), facts=tuple(facts))


def _wanting(vm: Vm, power: Power) -> Change:
    """Return a VM that is to be running or paused, with a claim where it has given its room back."""
    has_disks = vm.has_disks and not vm.is_lost  # one that was lost gets new ones
    vm = _replace(vm, power=power, has_disks=has_disks, is_lost=False, generation=vm.generation + 1)
    vm = _replace(vm, trouble=None, failed_generation=0)
    if vm.run is None:
        vm, fact = with_run(_replace(vm, why=""))
        return Change(vm=vm, facts=(fact,))
    if not vm.run.is_bound:
        return Change(vm=vm)
    vm, hosts = _ordered_anew(vm)
    vm, facts = _growing(vm)
    return Change(vm=vm, facts=tuple(facts), hosts=hosts)


def _growing(vm: Vm) -> tuple[Vm, list[Event]]:
    """Return a VM that claims what it lacks of the size that is wanted; one on its way out asks for all anew later."""
    growth = vm.wanted.beyond(vm.booked)
    if vm.grow is not None or vm.is_evicted or not (growth.cpu_millis or growth.memory_bytes):
        return vm, []
    vm, grow = new_claim(vm, _replace(growth, disk_bytes=0))
    vm = _replace(vm, grow=grow)
    return vm, [arrival(vm, grow)]


def _ordered_anew(vm: Vm) -> tuple[Vm, tuple[str, ...]]:
    """Return a VM whose host gets a new order."""
    generation = vm.generation + 1
    if vm.home is None:
        return _replace(vm, generation=generation), ()
    home = _replace(vm.home, generation=generation)
    return _replace(vm, generation=generation, home=home), (home.host,)


def _how_it_gets_elsewhere(vm: Vm) -> str:
    """Say what brings a VM that could move, but does not run, to another host."""
    if vm.power == "paused":
        return "resume it, and migrate it then"
    if vm.power == "running":
        return "wait until it runs"
    if vm.home is None:
        return "start it: it is placed anew"
    if vm.spec.reserve:
        return "start it, and migrate it while it runs: stopped, it keeps its room on its host"
    anew = "" if vm.spec.disks else "; or delete it and create it again: it has no disk to lose"
    return f"wait until it is stopped, and migrate it then{anew}"


def _check_same(old: VmSpec, new: VmSpec) -> None:
    for name in _FIXED:
        if getattr(old, name) != getattr(new, name):
            raise InputError(f"{name}: it cannot change once the VM exists", hint="create another VM with it")


def _refuse_if_going(vm: Vm) -> None:
    if vm.power == "absent":
        raise WrongStateError(f"VM {vm.name} is being deleted", hint="create another one")


def _refuse_if_moving(vm: Vm) -> None:
    if vm.moving is not None:
        raise MigratingError(f"VM {vm.name} is moving to another host", hint="wait until it has arrived")
