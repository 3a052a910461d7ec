"""What a caller is not told: what VMs, gangs and reservations of other projects that stand in the way are called. Pure.

The engine names them, since who runs the fleet wants to know. Whoever may not read a project learns that somebody is
there, and neither who nor in which project; everything else of an answer stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import eq
from typing import TypeVar

import msgspec

from hostler.control.access.principals import Principal
from hostler.control.api.shapes import Victim
from hostler.engine.reservations import RESERVATION
from hostler.model import Change, Cure, EvictionAdvice, Explanation, Failure, HostVerdict, format_resource

__all__ = ["STRANGER", "UNKNOWN_RESERVATION", "MayRead", "discreet", "less_of", "only", "readable", "seen_as"]

MayRead = Callable[[str], bool]
Found = TypeVar("Found", Victim, HostVerdict, Explanation)
_DEFAULT = "default"  # the engine leaves this project out of names
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


def only(project: str) -> MayRead:
    """Return a predicate that is true for one project. It can be pickled."""
    return partial(eq, project)


def discreet(found: Found, may_read: MayRead) -> Found:
    """Return a verdict, an explanation or a victim with the names in it that the caller may know."""
    if isinstance(found, Victim):
        return found if may_read(found.project) else _replace(found, vm="", project="", name=STRANGER)
    if isinstance(found, HostVerdict):
        failures = (_replace(one, by=_all_seen(one.by, may_read)) if one.by else one for one in found.failures)
        return _replace(found, failures=tuple(failures))
    return _replace(
        found,
        verdicts=tuple(discreet(one, may_read) for one in found.verdicts),
        cure=None if found.cure is None else _cure(found.cure, found, may_read),
        eviction=None if found.eviction is None else _advice(found.eviction, may_read),
        wakes=_wakes(found, may_read),
    )


def seen_as(name: str, may_read: MayRead) -> str:
    """Return how a caller sees a name of the engine's: ``web``, ``red/web``, ``gang:red/crew``."""
    kind, colon, key = name.rpartition(":")
    project, slash, _ = key.partition("/")
    if may_read(project if slash else _DEFAULT):
        return name
    return _WORDS.get(kind, STRANGER) if colon else STRANGER


def _all_seen(names: tuple[str, ...], may_read: MayRead) -> tuple[str, ...]:
    return tuple(seen_as(name, may_read) for name in names)


def _cure(cure: Cure, found: Explanation, may_read: MayRead) -> Cure:
    """Return a cure that says of what is in the way no more than where it is."""
    there = [one for one in found.verdicts if one.host == cure.host]
    return _replace(cure, changes=tuple(_change(one, cure.host, there, may_read) for one in cure.changes))


def _change(change: Change, host: str, there: Sequence[HostVerdict], may_read: MayRead) -> Change:
    if change.kind == "evict":
        seen = seen_as(change.subject, may_read)
        is_hidden = seen != change.subject
        return _replace(change, subject=seen, text=f"move or stop {seen} on {host} by hand") if is_hidden else change
    hidden = _hidden(there, may_read)
    if change.kind == "other" and change.subject in hidden:
        # All of the room is held: the change is about the reservation itself, not about a resource or a host.
        text = f"end {UNKNOWN_RESERVATION}, or let it hold less"
        return _replace(change, subject=UNKNOWN_RESERVATION, text=text)
    if change.kind == "reduce_request":
        for failure in (one for verdict in there for one in verdict.failures if one.reason.subject == change.subject):
            if hidden.intersection(map(_reservation, failure.by)):
                return _replace(change, text=less_of(_replace(failure, by=_all_seen(failure.by, may_read))))
    return change


def less_of(failure: Failure) -> str:
    """Say how much less of an amount would fit, as the engine does, and which reservation holds the rest."""
    resource = failure.reason.subject
    less, most = format_resource(resource, failure.missing or 0), format_resource(resource, failure.free or 0)
    kept = [one for one in failure.by if one.startswith(RESERVATION) or one == UNKNOWN_RESERVATION]
    held = "".join(f"; {one.replace(':', ' ', 1)} holds the rest" for one in kept[:1])
    return f"ask for {less} {resource} less (at most {most}{held})"


def _wakes(found: Explanation, may_read: MayRead) -> tuple[str, ...]:
    """Return what would wake a guest; of all reservations that it may not know the end is said once."""
    unnamed = dict.fromkeys(
        (f"reservation {name} ends" for name in _hidden(found.verdicts, may_read)), f"{UNKNOWN_RESERVATION} ends"
    )
    return tuple(dict.fromkeys(unnamed.get(text, text) for text in found.wakes))


def _hidden(verdicts: Iterable[HostVerdict], may_read: MayRead) -> set[str]:
    """Return the names of reservations that hold room there and that the caller may not know."""
    holders = {name for verdict in verdicts for failure in verdict.failures for name in failure.by}
    return {_reservation(name) for name in holders if seen_as(name, may_read) == UNKNOWN_RESERVATION}


def _reservation(holder: str) -> str:
    return holder.removeprefix(RESERVATION)


def _advice(advice: EvictionAdvice, may_read: MayRead) -> EvictionAdvice:
    tenants = [one if may_read(one) else _ELSEWHERE for one in advice.tenant.split(", ") if one]
    return _replace(advice, victims=_all_seen(advice.victims, may_read), tenant=", ".join(dict.fromkeys(tenants)))
