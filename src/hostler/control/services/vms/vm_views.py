"""VMs, operations and events as responses. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

import msgspec

from hostler.control.books.ledger import StoredVm
from hostler.control.schemas import Booked, Condition, Operation, Vm, Waiting
from hostler.control.services.times import format_optional_time, format_time
from hostler.control.services.vms.lost_vms import MissingHosts
from hostler.control.store.backup.restored_numbers import WAITS
from hostler.control.store.history.lease import LeaderLease
from hostler.control.store.rows.operations import OperationRow
from hostler.control.vms import state
from hostler.control.vms.orders import is_of_a_backup
from hostler.control.vms.state import state_of
from hostler.control.vms.status_texts import force_command, is_search_reason, waits_for_hosts
from hostler.model import CPU, MEMORY, format_resource

__all__ = [
    "ABOUT_TO_BE_DECIDED", "NO_LEADER", "SEARCHING", "WAITING", "Gathers", "TriedAt", "show_operation", "show_vm",
    "show_waiting", "undecided_reason",
]  # fmt: skip

SEARCHING = "searching"  # why a VM or gang is not placed, in a word: nothing is decided until a search has ended
WAITING = "waiting"  # the same, for every other reason

ABOUT_TO_BE_DECIDED = "the decision is pending"
NO_LEADER = "no replica is deciding at the moment"

_NOT_HEALTHY = ("pending", "unknown")  # states without trouble in which a VM does not run, or is not heard of

Gathers = Callable[[str], str]  # says of a gang, by project and name, why it cannot be tried yet
TriedAt = Callable[[str], int]  # says when a place was looked for last for a claim, by its uid; 0: never


class _Failed(msgspec.Struct, frozen=True):
    error: str = ""


def show_vm(
    stored: StoredVm,
    gathers: Gathers = lambda gang: "",
    tried_at: TriedAt = lambda uid: 0,
    missing: MissingHosts = lambda: (),
) -> Vm:
    """Return a VM as a response. Right after a change it is unknown what its gang lacks."""
    vm, row = stored.vm, stored.row
    why, silence = _why(vm, gathers), _silence(vm)
    if state_of(vm) == "lost" and (names := missing()):
        why = f"{why}; it {waits_for_hosts(names)}; an admin can force it: {force_command(vm)}"
    return Vm(
        id=vm.id,
        project=vm.project,
        name=vm.name,
        spec=vm.spec,
        power=vm.power,
        state=state_of(vm),
        host=vm.home.name if vm.home is not None else None,
        host_id=vm.home.host if vm.home is not None else None,
        booked=_booked(vm),
        moving_to=vm.other.name if vm.other is not None and vm.moving is not None else None,
        generation=vm.generation,
        observed_generation=vm.observed_generation,
        restarts=vm.restarts,
        protected=vm.is_protected,
        conditions=_conditions(vm, why, silence),
        why=silence or why,
        tried_at=_tried_at(vm, why, tried_at) if not silence else None,
        trouble=vm.trouble,
        created_at=format_time(row.created_ns),
        updated_at=format_time(row.updated_ns),
        version=row.version,
    )


def show_operation(row: OperationRow) -> Operation:
    """Return an operation as a response."""
    return Operation(
        id=row.id,
        kind=row.kind,
        state=cast("Literal['pending', 'done', 'failed']", row.state),
        project=row.project,
        subject=row.subject,
        actor=row.actor,
        generation=row.generation,
        error=msgspec.json.decode(row.body, type=_Failed).error,
        created_at=format_time(row.created_ns),
        updated_at=format_time(row.updated_ns),
        finished_at=format_optional_time(row.finished_ns),
    )


def show_waiting(
    stored: StoredVm, gathers: Gathers, tried_at: TriedAt, undecided: str = ABOUT_TO_BE_DECIDED
) -> Waiting:
    """Return a waiting VM with its reason; ``undecided`` if it has none yet, see ``undecided_reason``."""
    vm, row = stored.vm, stored.row
    why = _gang_reason(vm, gathers) or vm.why
    return Waiting(
        vm=vm.id,
        project=vm.project,
        name=vm.name,
        state=state_of(vm),
        power=vm.power,
        gang=vm.spec.gang,
        priority=vm.spec.priority,
        since=format_time(vm.waits_since_ns or row.created_ns),
        why=why or undecided,
        tried_at=_tried_at(vm, why, tried_at),
        reason=_wait_reason(vm, why),
    )


def undecided_reason(lease: LeaderLease) -> str:
    """Return why an undecided VM waits: for the leader's decision, or for a leader."""
    return ABOUT_TO_BE_DECIDED if lease.is_held else NO_LEADER


def _wait_reason(vm: state.Vm, why: str) -> str:
    """Return why a VM without room waits, in a word."""
    return SEARCHING if is_search_reason(why, f"{vm.project}/{vm.spec.gang}") else WAITING


def _tried_at(vm: state.Vm, why: str, tried_at: TriedAt) -> str | None:
    """Return when a VM last found no place for this reason; None if the reason is not from a try."""
    waiting = [one for one in (vm.run, vm.grow, vm.move) if one is not None and not one.is_bound]
    return format_optional_time(tried_at(waiting[0].uid)) if waiting and why and why == vm.why else None


def _gang_reason(vm: state.Vm, gathers: Gathers) -> str:
    """Return what the gang of a VM without room lacks: its members are not tried then."""
    if not vm.spec.gang or vm.run is None or vm.run.is_bound:
        return ""
    return gathers(f"{vm.project}/{vm.spec.gang}")


def _why(vm: state.Vm, gathers: Gathers) -> str:
    """Return why a VM waits. A reason of a change that was taken back is left out."""
    if lacks := _gang_reason(vm, gathers):
        return lacks
    if any(booking is not None and is_of_a_backup(booking) for booking in (vm.home, vm.other)):
        return WAITS
    has_room = vm.run is not None and vm.run.is_bound and vm.grow is None
    is_at_rest = vm.power == "stopped" and vm.run is None
    is_over = (has_room or is_at_rest) and vm.moving is None and not vm.is_evicted and not vm.is_lost
    return "" if is_over else vm.why


def _silence(vm: state.Vm) -> str:
    """Return what is unknown about a VM on a silent host; after a restore the text differs."""
    if state_of(vm) != "unknown" or vm.home is None or is_of_a_backup(vm.home):
        return ""
    return f"its host {vm.home.name} is silent, so it is unknown whether it runs"


def _booked(vm: state.Vm) -> Booked | None:
    """Return the room that is kept for a placed VM; its spec is the desired size."""
    if vm.run is None or not vm.run.is_bound:
        return None
    size = vm.booked
    return Booked(
        cpu=format_resource(CPU, size.cpu_millis),
        memory=format_resource(MEMORY, size.memory_bytes),
    )


def _conditions(vm: state.Vm, why: str, silence: str) -> list[Condition]:
    has_room = vm.home is not None and vm.run is not None and vm.run.is_bound
    is_settled = vm.observed_generation >= vm.generation
    trouble, state_now = vm.trouble, state_of(vm)
    unhealthy = "lost" if vm.is_lost else trouble.code if trouble is not None else ""
    if not unhealthy and state_now in _NOT_HEALTHY:
        unhealthy = state_now
    return [
        Condition(
            type="placed",
            status=has_room,
            reason="" if has_room else _wait_reason(vm, why) if vm.run is not None else vm.power,
            message=why,
        ),
        Condition(
            type="settled",
            status=is_settled,
            reason="" if is_settled else state_of(vm),
            message="" if is_settled else "the last change is not applied yet",
        ),
        Condition(
            type="healthy",
            status=not unhealthy,
            reason=unhealthy,
            message=trouble.message if trouble is not None else "",
        ),
        Condition(
            type="reachable",
            status=not vm.is_unknown,
            reason="host_silent" if vm.is_unknown else "",
            message=silence,
        ),
        Condition(type="protected", status=vm.is_protected),
    ]
