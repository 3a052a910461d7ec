"""Hides names of other projects: VMs, gangs and reservations that a caller may not read. Pure.

The engine names them for operators. A caller who may not read a project sees that something is there, but neither its
name nor its project. Everything else of an answer stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import eq
from typing import TypeVar

import msgspec

from hostler.control.access.principals import Principal
from hostler.control.schemas import Victim
from hostler.engine.state.reservations import RESERVATION
from hostler.model import Cure, CureChange, EvictionAdvice, Explanation, Failure, HostVerdict, format_resource
from hostler.model.decisions import WakeEvent
from hostler.model.reasons import HIDDEN_RESERVATION_ENDS, RESERVATION_ENDS
from hostler.model.resources import format_devices
from hostler.model.vocabulary import VM_WORDS, render_wakes

__all__ = [
    "STRANGER",
    "UNKNOWN_RESERVATION",
    "MayRead",
    "hide_names",
    "one_project",
    "readable",
    "reduction_text",
    "visible_name",
]

MayRead = Callable[[str], bool]
Found = TypeVar("Found", Victim, HostVerdict, Explanation)
_DEFAULT = "default"  # the engine leaves this project out of names
DEVICES = "devices"  # the filter whose amounts are thousandths of a device
UNKNOWN_RESERVATION = "a reservation of another project"
_WORDS = {"gang": "a gang of another project", "reservation": UNKNOWN_RESERVATION}
STRANGER = "a VM of another project"
_ELSEWHERE = "another project"
_replace = msgspec.structs.replace


def readable(principal: Principal) -> MayRead:
    """Return a predicate that is true for projects whose VMs a caller may read. It can be pickled."""
    return partial(_may_read, principal)


def _may_read(principal: Principal, project: str) -> bool:
    return principal.why_not("vm.read", project) is None


def one_project(project: str) -> MayRead:
    """Return a predicate that is true for one project. It can be pickled."""
    return partial(eq, project)


def hide_names(found: Found, may_read: MayRead) -> Found:
    """Return a verdict, an explanation or a victim with only the names that the caller may see."""
    if isinstance(found, Victim):
        return found if may_read(found.project) else _replace(found, vm="", project="", name=STRANGER)
    if isinstance(found, HostVerdict):
        failures = (_replace(one, by=_visible_names(one.by, may_read)) if one.by else one for one in found.failures)
        return _replace(found, failures=tuple(failures))
    wakes = _wakes(found, may_read)
    return _replace(
        found,
        verdicts=tuple(hide_names(one, may_read) for one in found.verdicts),
        cure=None if found.cure is None else _cure(found.cure, found, may_read),
        eviction=None if found.eviction is None else _advice(found.eviction, may_read),
        wakes=render_wakes(wakes, VM_WORDS),
        wake_events=wakes,
    )


def visible_name(name: str, may_read: MayRead) -> str:
    """Return an engine's name as the caller sees it: ``web``, ``red/web``, ``gang:red/crew``."""
    kind, colon, key = name.rpartition(":")
    project, slash, _ = key.partition("/")
    if may_read(project if slash else _DEFAULT):
        return name
    return _WORDS.get(kind, STRANGER) if colon else STRANGER


def _visible_names(names: tuple[str, ...], may_read: MayRead) -> tuple[str, ...]:
    return tuple(visible_name(name, may_read) for name in names)


def _cure(cure: Cure, found: Explanation, may_read: MayRead) -> Cure:
    """Return a cure that names only the place of hidden objects."""
    there = [one for one in found.verdicts if one.host == cure.host]
    return _replace(cure, changes=tuple(_change(one, cure.host, there, may_read) for one in cure.changes))


def _change(change: CureChange, host: str, there: Sequence[HostVerdict], may_read: MayRead) -> CureChange:
    if change.kind == "evict":
        seen = visible_name(change.subject, may_read)
        is_hidden = seen != change.subject
        return _replace(change, subject=seen, text=f"move or stop {seen} on {host} by hand") if is_hidden else change
    hidden = _hidden_reservations(there, may_read)
    if change.kind == "other" and change.subject in hidden:
        # All of the room is held: the change is about the reservation itself, not about a resource or a host.
        text = f"end {UNKNOWN_RESERVATION}, or let it hold less"
        return _replace(change, subject=UNKNOWN_RESERVATION, text=text)
    if change.kind == "reduce_request":
        for failure in (one for verdict in there for one in verdict.failures if one.reason.subject == change.subject):
            if hidden.intersection(map(_reservation, failure.by)):
                return _replace(change, text=reduction_text(_replace(failure, by=_visible_names(failure.by, may_read))))
    return change


def reduction_text(failure: Failure) -> str:
    """Describe how much less of an amount would fit, and which reservation holds the rest."""
    resource = failure.reason.subject
    amounts = (failure.missing or 0, failure.free or 0)
    is_device = failure.reason.plugin == DEVICES
    less, most = (format_devices(one) if is_device else format_resource(resource, one) for one in amounts)
    kept = [one for one in failure.by if one.startswith(RESERVATION) or one == UNKNOWN_RESERVATION]
    held = "".join(f"; {one.replace(':', ' ', 1)} holds the rest" for one in kept[:1])
    return f"ask for {less} {resource} less (at most {most}{held})"


def _wakes(found: Explanation, may_read: MayRead) -> tuple[WakeEvent, ...]:
    """Return what would wake a guest. Hidden reservations are named once for all."""
    hidden = _hidden_reservations(found.verdicts, may_read)
    unnamed = WakeEvent(HIDDEN_RESERVATION_ENDS)
    wakes = (
        unnamed if event.code == RESERVATION_ENDS and event.subject in hidden else event for event in found.wake_events
    )
    return tuple(dict.fromkeys(wakes))


def _hidden_reservations(verdicts: Iterable[HostVerdict], may_read: MayRead) -> set[str]:
    """Return the names of reservations that hold room there and are hidden from the caller."""
    holders = {name for verdict in verdicts for failure in verdict.failures for name in failure.by}
    return {_reservation(name) for name in holders if visible_name(name, may_read) == UNKNOWN_RESERVATION}


def _reservation(holder: str) -> str:
    return holder.removeprefix(RESERVATION)


def _advice(advice: EvictionAdvice, may_read: MayRead) -> EvictionAdvice:
    tenants = [one if may_read(one) else _ELSEWHERE for one in advice.tenant.split(", ") if one]
    return _replace(advice, victims=_visible_names(advice.victims, may_read), tenant=", ".join(dict.fromkeys(tenants)))
