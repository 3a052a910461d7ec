"""VMs, operations and events as the outside sees them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

import msgspec

from hostler.control.api.shapes import Booked, Condition, Operation, Vm, Waiting
from hostler.control.books.ledger import Stored
from hostler.control.services.lost_vms import MissingHosts
from hostler.control.services.times import at, maybe_at
from hostler.control.store.lease import Lease
from hostler.control.store.operations import OperationRow
from hostler.control.store.renumbering import WAITS
from hostler.control.vms import state
from hostler.control.vms.orders import is_of_a_backup
from hostler.control.vms.state import state_of
from hostler.control.vms.telling import force_command, is_search_reason, waits_for_hosts
from hostler.model import CPU, MEMORY, format_resource

__all__ = [
    "ABOUT_TO_BE_DECIDED", "NO_LEADER", "SEARCHING", "WAITING", "Gathers", "TriedAt", "show_operation", "show_vm",
    "show_waiting", "undecided_reason",
]  # fmt: skip

SEARCHING = "searching"  # why a VM or gang is not placed, in a word: nothing is decided until a search has ended
WAITING = "waiting"  # the same, for every other reason

ABOUT_TO_BE_DECIDED = "it is about to be decided"
NO_LEADER = "nobody decides at the moment"

Gathers = Callable[[str], str]  # says of a gang, by project and name, why it cannot be tried yet
TriedAt = Callable[[str], int]  # says when a place was looked for last for a claim, by its uid; 0: never


class _Failed(msgspec.Struct, frozen=True):
    error: str = ""


def show_vm(
    stored: Stored,
    gathers: Gathers = lambda gang: "",
    tried_at: TriedAt = lambda uid: 0,
    missing: MissingHosts = lambda: (),
) -> Vm:
    """Return a VM as answers have it; right after a change of it nobody can say yet what its gang lacks."""
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
        tried_at=_tried(vm, why, tried_at) if not silence else None,
        trouble=vm.trouble,
        created_at=at(row.created_ns),
        updated_at=at(row.updated_ns),
        version=row.version,
    )


def show_operation(row: OperationRow) -> Operation:
    """Return an operation as answers have it."""
    return Operation(
        id=row.id,
        kind=row.kind,
        state=cast("Literal['pending', 'done', 'failed']", row.state),
        project=row.project,
        subject=row.subject,
        actor=row.actor,
        generation=row.generation,
        error=msgspec.json.decode(row.body, type=_Failed).error,
        created_at=at(row.created_ns),
        updated_at=at(row.updated_ns),
        finished_at=maybe_at(row.finished_ns),
    )


def show_waiting(stored: Stored, gathers: Gathers, tried_at: TriedAt, undecided: str = ABOUT_TO_BE_DECIDED) -> Waiting:
    """Return a VM that waits, with its reason; ``undecided`` if it has none yet, see ``undecided_reason``."""
    vm, row = stored.vm, stored.row
    why = _gathering(vm, gathers) or vm.why
    return Waiting(
        vm=vm.id,
        project=vm.project,
        name=vm.name,
        state=state_of(vm),
        power=vm.power,
        gang=vm.spec.gang,
        priority=vm.spec.priority,
        since=at(vm.waits_since_ns or row.created_ns),
        why=why or undecided,
        tried_at=_tried(vm, why, tried_at),
        reason=_wait_reason(vm, why),
    )


def undecided_reason(lease: Lease) -> str:
    """Return why a VM that nothing was decided about waits: a replica that leads will decide, if there is one."""
    return ABOUT_TO_BE_DECIDED if lease.is_held else NO_LEADER


def _wait_reason(vm: state.Vm, why: str) -> str:
    """Return why a VM without room waits, in a word."""
    return SEARCHING if is_search_reason(why, f"{vm.project}/{vm.spec.gang}") else WAITING


def _tried(vm: state.Vm, why: str, tried_at: TriedAt) -> str | None:
    """Return when it was that a VM found no place for this reason; None where no try is the reason."""
    waiting = [one for one in (vm.run, vm.grow, vm.move) if one is not None and not one.is_bound]
    return maybe_at(tried_at(waiting[0].uid)) if waiting and why and why == vm.why else None


def _gathering(vm: state.Vm, gathers: Gathers) -> str:
    """Return what the gang of a VM without room lacks: nobody has asked any host about its members then."""
    if not vm.spec.gang or vm.run is None or vm.run.is_bound:
        return ""
    return gathers(f"{vm.project}/{vm.spec.gang}")


def _why(vm: state.Vm, gathers: Gathers) -> str:
    """Return why a VM waits; what was said of a wish that was taken back since is no reason any more."""
    if lacks := _gathering(vm, gathers):
        return lacks
    if any(booking is not None and is_of_a_backup(booking) for booking in (vm.home, vm.other)):
        return WAITS
    has_room = vm.run is not None and vm.run.is_bound and vm.grow is None
    is_at_rest = vm.power == "stopped" and vm.run is None
    is_over = (has_room or is_at_rest) and vm.moving is None and not vm.is_evicted and not vm.is_lost
    return "" if is_over else vm.why


def _silence(vm: state.Vm) -> str:
    """Return what is not known of a VM whose host is not heard; after a restore that is another reason."""
    if state_of(vm) != "unknown" or vm.home is None or is_of_a_backup(vm.home):
        return ""
    return f"nothing is heard of its host {vm.home.name}, so whether it runs is not known"


def _booked(vm: state.Vm) -> Booked | None:
    """Return what is kept for a VM that has room; its spec is what it will have."""
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
    trouble = vm.trouble
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
            message="" if is_settled else "what was asked for last has not come true yet",
        ),
        Condition(
            type="healthy",
            status=trouble is None and not vm.is_lost,
            reason="lost" if vm.is_lost else trouble.code if trouble is not None else "",
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
