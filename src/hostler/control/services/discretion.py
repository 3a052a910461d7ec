"""What a caller is not told: what VMs, gangs and reservations of other projects that stand in the way are called. Pure.

The engine names them, since who runs the fleet wants to know. Whoever may not read a project learns that somebody is
there, and neither who nor in which project; everything else of an answer stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from hostler.control.access.principals import Principal
from hostler.control.api.shapes import Victim
from hostler.model import Change, Cure, EvictionAdvice, Explanation, HostVerdict

__all__ = ["STRANGER", "UNKNOWN_RESERVATION", "MayRead", "discreet", "only", "readable", "seen_as"]

MayRead = Callable[[str], bool]
Found = TypeVar("Found", Victim, HostVerdict, Explanation)
_DEFAULT = "default"  # the engine leaves this project out of names
UNKNOWN_RESERVATION = "a reservation of another project"
_WORDS = {"gang": "a gang of another project", "reservation": UNKNOWN_RESERVATION}
STRANGER = "a VM of another project"
_ELSEWHERE = "another project"
_RESERVATION = re.compile(r"\breservation (\S+?)(?= ends$| holds the rest|, or let it hold less$)")
_replace = msgspec.structs.replace


def readable(principal: Principal) -> MayRead:
    """Return the test by which a caller may read the VMs of a project."""
    return lambda project: principal.why_not("vm.read", project) is None


def only(project: str) -> MayRead:
    """Return the test of somebody who knows one project."""
    return lambda other: other == project


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
        cure=None if found.cure is None else _cure(found.cure, may_read),
        eviction=None if found.eviction is None else _advice(found.eviction, may_read),
        wakes=tuple(dict.fromkeys(_said(text, may_read) for text in found.wakes)),
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


def _cure(cure: Cure, may_read: MayRead) -> Cure:
    """Return a cure that says of what is in the way no more than where it is."""
    return _replace(cure, changes=tuple(_change(one, cure.host, may_read) for one in cure.changes))


def _change(change: Change, host: str, may_read: MayRead) -> Change:
    if change.kind == "evict":
        seen = seen_as(change.subject, may_read)
        is_hidden = seen != change.subject
        return _replace(change, subject=seen, text=f"move or stop {seen} on {host} by hand") if is_hidden else change
    text = _said(change.text, may_read)
    # Where all of the room is held, the change is about the reservation itself, not about a resource or a host.
    is_about_it = text != change.text and change.kind == "other"
    return _replace(change, text=text, subject=UNKNOWN_RESERVATION if is_about_it else change.subject)


def _said(text: str, may_read: MayRead) -> str:
    """Return a sentence of the engine's without the names of reservations that the caller may not know."""

    def seen(found: re.Match[str]) -> str:
        name = f"reservation:{found[1]}"
        shown = seen_as(name, may_read)
        return found[0] if shown == name else shown

    return _RESERVATION.sub(seen, text)


def _advice(advice: EvictionAdvice, may_read: MayRead) -> EvictionAdvice:
    tenants = [one if may_read(one) else _ELSEWHERE for one in advice.tenant.split(", ") if one]
    return _replace(advice, victims=_all_seen(advice.victims, may_read), tenant=", ".join(dict.fromkeys(tenants)))
