"""Limits of a project: which other projects its VMs may name, their priority, and how many objects it may have.

The engine has no such limits. Anti-affinity works in both directions, so a VM that avoids everything would keep the VMs
of all projects away; a priority takes room from every lower one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import UNSET

from hostler.config.fleet.file_terms import GuestTermEntry, WeightedGuestTermEntry
from hostler.control.access.errors import ForbiddenError
from hostler.control.access.principals import Principal
from hostler.control.services.callers import Caller
from hostler.control.services.errors import TooManyInProjectError, TooManyInServiceError
from hostler.control.services.tenancy.projects import highest_priority
from hostler.control.store import Connection
from hostler.control.vms.spec import VmSpec
from hostler.errors import InputError
from hostler.model import CPU, MEMORY, STORAGE

__all__ = [
    "MAX_GANGS_OF_PROJECT", "MAX_KEYS_OF_PROJECT", "MAX_RESERVATIONS", "MAX_RESERVATIONS_OF_PROJECT",
    "MAX_RESOURCES", "MAX_RESOURCES_OF_PROJECT", "MAX_RESOURCES_OF_RESERVATION", "MAX_TERMS_OF_VM", "check_bounds",
    "check_count", "check_priority", "check_reach", "check_resources", "check_terms", "check_total",
]  # fmt: skip

MAX_GANGS_OF_PROJECT = 200
MAX_KEYS_OF_PROJECT = 100  # that are good; each has limits of rate of its own

MAX_RESERVATIONS_OF_PROJECT = 100
MAX_RESERVATIONS = 1000  # of all projects: the engine looks at each of them for every host
# Resources other than cpu, memory and storage that reservations name: the engine holds 1,024 of all kinds.
MAX_RESOURCES_OF_RESERVATION = 8
MAX_RESOURCES_OF_PROJECT = 32
MAX_RESOURCES = 512

MAX_TERMS_OF_VM = 128  # each costs the engine a counter for every host or zone

_COUNTED = frozenset({CPU, MEMORY, STORAGE})
_LISTS = ("affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity")
_NEAR = "name projects whose VMs this key may read, or leave it out: then the VM's own project is meant"
_RAISE = "ask for a lower one; an administrator of all projects can give it, or raise the project's max_priority"


def check_bounds(
    connection: Connection, project: str, spec: VmSpec, caller: Caller, *, before: VmSpec | None = None
) -> None:
    """Reject a VM that exceeds its author's limits; ForbiddenError. What the VM had before stays allowed."""
    check_terms(spec, before=before)
    check_reach(caller.principal, project, spec, before=before)
    check_priority(connection, project, spec.priority, caller, before=0 if before is None else before.priority)


def check_total(what: str, count: int, most: int) -> None:
    """Reject one more object if the service has its maximum number; TooManyInServiceError."""
    if count >= most:
        raise TooManyInServiceError(f"there are {count} {what}, the limit of the service", hint=f"delete unused {what}")


def check_resources(
    project: str, name: str, wanted: Collection[str], others: Mapping[tuple[str, str], Collection[str]]
) -> None:
    """Reject a reservation that names more resources than it, its project or all projects may name.

    ``others`` are the resources that all existing reservations name, by project and name.
    """
    fresh = set(wanted) - _COUNTED
    if len(fresh) > MAX_RESOURCES_OF_RESERVATION:
        hint = f"name at most {MAX_RESOURCES_OF_RESERVATION} beside cpu, memory and storage"
        raise InputError(f"amounts: {len(fresh)} resources", hint=hint)
    rest = {key: set(names) - _COUNTED for key, names in others.items() if key != (project, name)}
    own = set().union(*(names for key, names in rest.items() if key[0] == project))
    known = set().union(*rest.values())
    hint = "delete unused reservations"
    if fresh - own and (count := len(fresh | own)) > MAX_RESOURCES_OF_PROJECT:
        what = f"reservations of project {project} would name {count} resources"
        raise TooManyInProjectError(f"{what}; a project may name {MAX_RESOURCES_OF_PROJECT}", hint=hint)
    if fresh - known and (count := len(fresh | known)) > MAX_RESOURCES:
        what = f"reservations of all projects would name {count} resources"
        raise TooManyInServiceError(f"{what}; the service holds {MAX_RESOURCES}", hint=hint)


def check_count(project: str, what: str, count: int, most: int) -> None:
    """Reject one more object if a project has its maximum number; TooManyInProjectError."""
    if count >= most:
        raise TooManyInProjectError(f"project {project} has {count} {what}, its limit", hint=f"delete unused {what}")


def check_terms(spec: VmSpec, *, before: VmSpec | None = None) -> None:
    """Reject a VM with too many terms about other VMs, unless it had as many before; InputError."""
    count = _term_count(spec)
    if count > max(MAX_TERMS_OF_VM, 0 if before is None else _term_count(before)):
        raise InputError(
            f"{count} rules about other VMs (affinity, anti-affinity, spread); a VM may have {MAX_TERMS_OF_VM}",
            hint="name a label that all of the other VMs share",
        )


def _term_count(spec: VmSpec) -> int:
    return sum(1 for _ in _terms(spec)) + len(spec.spread)


def check_reach(principal: Principal, project: str, spec: VmSpec, *, before: VmSpec | None = None) -> None:
    """Reject terms about VMs of projects that the caller may not read; ForbiddenError names the field."""
    known = [] if before is None else [term for _, term in _terms(before)]
    for place, term in _terms(spec):
        if term in known:
            continue
        for name in term.namespaces:
            why = None if name == project else principal.why_not("vm.read", name)
            if why is not None:
                raise ForbiddenError(f"{place}.namespaces: {why}", hint=_NEAR)
        why = None if term.namespace_selector is UNSET else principal.why_not("vm.read")
        if why is not None:
            raise ForbiddenError(f"{place}.namespace_selector: it may select any project, and {why}", hint=_NEAR)


def check_priority(connection: Connection, project: str, priority: int, caller: Caller, *, before: int = 0) -> None:
    """Reject a priority above the limit of its project, unless it is no higher than before; ForbiddenError."""
    if priority <= max(before, 0) or caller.principal.why_not("priority.raise") is None:
        return
    limit = highest_priority(connection, project)
    if priority > limit:
        raise ForbiddenError(f"priority: {priority} is above the limit {limit} of project {project}", hint=_RAISE)


def _terms(spec: VmSpec) -> Iterator[tuple[str, GuestTermEntry]]:
    """Yield all terms about other VMs with their places. Spreading counts VMs of the own project only."""
    for name in _LISTS:
        found: list[GuestTermEntry | WeightedGuestTermEntry] = getattr(spec, name)
        for at, one in enumerate(found):
            if isinstance(one, WeightedGuestTermEntry):
                yield f"{name}[{at}].term", one.term
            else:
                yield f"{name}[{at}]", one
