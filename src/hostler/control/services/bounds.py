"""How far the wishes of one project reach: which other projects a VM may name, and how important it may be.

The engine itself knows no such bounds. Anti-affinity holds for both sides, so a VM that is apart from everybody keeps
everybody's VMs away; a priority takes room from whoever has a lower one.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from hostler.config.fleet_file_terms import GuestTermEntry, WeightedGuestTermEntry
from hostler.control.access.errors import ForbiddenError
from hostler.control.access.principals import Principal
from hostler.control.services.callers import Caller
from hostler.control.services.projects import highest_priority
from hostler.control.store import Connection
from hostler.control.vms.spec import VmSpec

__all__ = ["check_bounds", "check_priority", "check_reach"]

_LISTS = ("affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity")
_NEAR = "name projects whose VMs this key may read, or leave it out: then the VM's own project is meant"
_RAISE = "ask for a lower one; an administrator of all projects can give it, or raise the project's max_priority"


def check_bounds(
    connection: Connection, project: str, spec: VmSpec, caller: Caller, *, before: VmSpec | None = None
) -> None:
    """Refuse a VM that reaches farther than its author may; ForbiddenError. What it had before it keeps."""
    check_reach(caller.principal, project, spec, before=before)
    check_priority(connection, project, spec.priority, caller, before=0 if before is None else before.priority)


def check_reach(principal: Principal, project: str, spec: VmSpec, *, before: VmSpec | None = None) -> None:
    """Refuse terms about VMs of projects that the caller may not read; ForbiddenError names the field."""
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
    """Refuse a priority beyond the limit of its project, unless it is no higher than before; ForbiddenError."""
    if priority <= max(before, 0) or caller.principal.why_not("priority.raise") is None:
        return
    limit = highest_priority(connection, project)
    if priority > limit:
        raise ForbiddenError(f"priority: {priority} is above the limit {limit} of project {project}", hint=_RAISE)


def _terms(spec: VmSpec) -> Iterator[tuple[str, GuestTermEntry]]:
    """Yield all terms about other VMs, each with its place; spreading counts VMs of the own project only."""
    for name in _LISTS:
        found: list[GuestTermEntry | WeightedGuestTermEntry] = getattr(spec, name)
        for at, one in enumerate(found):
            if isinstance(one, WeightedGuestTermEntry):
                yield f"{name}[{at}].term", one.term
            else:
                yield f"{name}[{at}]", one
