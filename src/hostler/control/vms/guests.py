"""VMs as guests of the engine: a VM's claims become facts. Pure.

A guest's uid is the VM's id, with a number from the second claim on. Its namespace and tenant are the project, so
affinity, quotas and gangs work within projects.
"""

from __future__ import annotations

import msgspec

from hostler.config.documents import Document
from hostler.config.fleet.entries import read_guests
from hostler.config.fleet.file import GuestEntry
from hostler.control.vms.spec import Size, VmSpec, size_of
from hostler.control.vms.state import Claim, Vm
from hostler.engine.cluster.shapes import check_spec
from hostler.model import (
    CPU,
    MEMORY,
    STORAGE,
    Amounts,
    Expression,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    Term,
    amounts,
)

__all__ = [
    "CAN_MIGRATE", "HAS_BRIDGE", "HAS_STORAGE", "YES", "arrival", "check_guest", "claim_update", "departure",
    "departures", "guest_of", "guest_spec", "new_claim", "vm_of_uid", "with_run",
]  # fmt: skip

HAS_STORAGE = "hostler/storage."
HAS_BRIDGE = "hostler/bridge."
CAN_MIGRATE = "hostler/can-migrate"
YES = "yes"

_STEADY = 2**31 - 1  # disks are never evicted: their room is no room for running
_SOURCE = "the request"
_NAME_FIELD = "metadata.name"
_SEPARATOR = "."


def vm_of_uid(uid: str) -> str:
    """Return the id of a guest's VM."""
    return uid.partition(_SEPARATOR)[0]


def new_claim(vm: Vm, size: Size) -> tuple[Vm, Claim]:
    """Return the VM with its next number, and a claim with it; a VM with a home is placed without its gang."""
    number = vm.number + 1
    uid = vm.id if number == 1 else f"{vm.id}{_SEPARATOR}{number}"
    gang = f"{vm.project}/{vm.spec.gang}" if vm.spec.gang and vm.home is None else ""
    return msgspec.structs.replace(vm, number=number), Claim(uid=uid, size=size, gang=gang)


def with_run(vm: Vm) -> tuple[Vm, GuestArrived]:
    """Return the VM with a claim for all that it lacks to run, and the fact for the engine."""
    vm, run = new_claim(vm, vm.unbooked)
    vm = msgspec.structs.replace(vm, run=run)
    return vm, arrival(vm, run)


def guest_spec(spec: VmSpec, project: str, size: Size) -> GuestSpec:
    """Return the shape of a VM of some size; InputError if its constraints are invalid."""
    entry = GuestEntry(
        name="vm",
        devices=spec.devices,
        priority=spec.priority,
        policy=spec.strategy,
        host_name=spec.host_name,
        host_selector={**spec.host_selector, **_needs(spec)},
        host_affinity=spec.host_affinity,
        preferred_hosts=spec.preferred_hosts,
        tolerations=spec.tolerations,
        namespace=project,
        labels=spec.labels,
        affinity=spec.affinity,
        anti_affinity=spec.anti_affinity,
        preferred_affinity=spec.preferred_affinity,
        preferred_anti_affinity=spec.preferred_anti_affinity,
        spread=spec.spread,
        tenant=project,
    )
    guest = read_guests(Document(None, _SOURCE), (), entry, {})[0]
    can_move = spec.is_movable and not spec.devices  # a device is no part of what is copied to another host
    return msgspec.structs.replace(
        guest.spec,
        requests=_amounts(size),
        is_pinned=not spec.is_movable,
        move_labels=((CAN_MIGRATE, YES),) if can_move else None,
    )


def check_guest(spec: VmSpec, project: str) -> None:
    """Reject a VM with invalid constraints, or one that the engine would reject; InputError, FactError."""
    check_spec(guest_spec(spec, project, size_of(spec)))


def guest_of(vm: Vm, claim: Claim, *, is_leaving: bool = False) -> Guest:
    """Return the guest for a claim, as the engine should know it now."""
    home = vm.home.name if vm.home is not None else ""
    if vm.disk is not None and claim.uid == vm.disk.uid:
        spec = GuestSpec(requests=_amounts(claim.size), priority=_STEADY, namespace=vm.project, tenant=vm.project)
        return Guest(name=vm.name, uid=claim.uid, version=claim.version, spec=spec, host=home)
    spec = guest_spec(vm.spec, vm.project, claim.size)
    if vm.grow is not None and claim.uid == vm.grow.uid:
        spec = msgspec.structs.replace(_alone(spec), devices=(), host_name=home)
    elif vm.move is not None and claim.uid == vm.move.uid:
        here = Term((), (Expression(_NAME_FIELD, "NotIn", (home,)),))
        terms = tuple(Term(term.expressions, (*term.names, *here.names)) for term in spec.host_affinity)
        spec = msgspec.structs.replace(spec, host_affinity=terms or (here,))
        if vm.power == "stopped":  # no VM is stopped for one that does not run
            spec = msgspec.structs.replace(spec, may_preempt=False)
        else:
            needs = tuple(sorted({*spec.host_selector, (CAN_MIGRATE, YES)}))
            spec = msgspec.structs.replace(spec, host_selector=needs)
    elif home and not claim.is_bound:
        spec = msgspec.structs.replace(spec, host_name=home)
    host = home if claim.is_bound and (vm.move is None or claim.uid != vm.move.uid) else ""
    if vm.move is not None and claim.uid == vm.move.uid and claim.is_bound and vm.other is not None:
        host = vm.other.name
    return Guest(
        name=vm.name,
        uid=claim.uid,
        version=claim.version,
        spec=msgspec.structs.replace(spec, is_leaving=is_leaving) if is_leaving else spec,
        host=host,
        on_devices=claim.devices if host else (),
        started=_started(vm, claim),
        gang=claim.gang,
        replaces=_replaced(vm, claim),
    )


def _started(vm: Vm, claim: Claim) -> int:
    """Return since when a claim's VM runs: a VM that moves runs on at the other end."""
    is_move = vm.move is not None and claim.uid == vm.move.uid
    is_run = vm.run is not None and claim.uid == vm.run.uid and claim.is_bound
    return vm.runs_since_ns if is_run or is_move else 0


def _replaced(vm: Vm, claim: Claim) -> str:
    """Return the guest that the claim of a move takes over from, if the engine itself chose where the VM moves."""
    is_move = vm.move is not None and claim.uid == vm.move.uid
    is_for_others = vm.moving is not None and bool(vm.moving.makes_room) and vm.moving.phase != "cleaning"
    return vm.run.uid if is_move and is_for_others and vm.run is not None else ""


def arrival(vm: Vm, claim: Claim) -> GuestArrived:
    """Return the fact of a new claim."""
    return GuestArrived(guest=guest_of(vm, claim))


def claim_update(vm: Vm, claim: Claim, *, is_leaving: bool = False) -> GuestChanged:
    """Return the fact that a claim changed; its version must be a new one."""
    return GuestChanged(guest=guest_of(vm, claim, is_leaving=is_leaving))


def departure(claim: Claim) -> GuestLeft:
    """Return the fact that a claim is over."""
    return GuestLeft(uid=claim.uid)


def departures(*claims: Claim | None) -> tuple[GuestLeft, ...]:
    """Return the facts that claims are over; None is skipped."""
    return tuple(departure(claim) for claim in claims if claim is not None)


def _needs(spec: VmSpec) -> dict[str, str]:
    """Return the labels that a host must have for the disks and the network of a VM."""
    needs = {f"{HAS_STORAGE}{disk.storage}": YES for disk in spec.disks if disk.storage}
    if spec.network.bridge:
        needs[f"{HAS_BRIDGE}{spec.network.bridge}"] = YES
    return needs


def _amounts(size: Size) -> Amounts:
    return amounts({CPU: size.cpu_millis, MEMORY: size.memory_bytes, STORAGE: size.disk_bytes})


def _alone(spec: GuestSpec) -> GuestSpec:
    """Return a shape without terms about other guests: they were checked when the VM itself was placed."""
    return msgspec.structs.replace(
        spec, affinity=(), anti_affinity=(), preferred_affinity=(), preferred_anti_affinity=(), spread=(), labels=()
    )
