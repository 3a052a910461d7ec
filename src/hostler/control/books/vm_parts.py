"""Adds to a fact which part of a VM it is about, for people who read the log; the engine only knows guests.

A VM has one guest for running, one for the disks that it keeps, one for its growth, and one at the target of a move.
Owners see events of their VM, not of four guests. Pure; used by ``ledger``.
"""

from __future__ import annotations

from typing import Literal

from hostler.control.vms.state import Claim, Vm
from hostler.model import Event, GuestArrived, GuestBound, GuestChanged, GuestLeft

__all__ = ["Part", "PartArrival", "PartChange", "PartDeparture", "PartPlacement", "name_parts"]

Part = Literal["run", "disk", "grow", "move"]


class PartArrival(GuestArrived, frozen=True, tag="guest_arrived"):
    """A guest that needs a place or has one, and which part of its VM it is."""

    part: Part = "run"


class PartPlacement(GuestBound, frozen=True, tag="guest_bound"):
    """A guest that was placed, and which part of its VM it is."""

    part: Part = "run"


class PartChange(GuestChanged, frozen=True, tag="guest_changed"):
    """A guest that changed. ``is_internal``: other events say so, so that it is not shown to owners."""

    is_internal: bool = False


class PartDeparture(GuestLeft, frozen=True, tag="guest_left"):
    """A guest that left, and which part of its VM it was. One without room gave none back.

    The growth of a VM leaves as soon as it is placed, because it then belongs to the running part: ``is_merged``.
    """

    part: Part = "run"
    had_room: bool = True
    is_merged: bool = False


def name_parts(before: Vm, after: Vm, facts: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return facts about a VM with the parts that they are about; facts about running stay as they are."""
    had = _parts(before)
    parts = _parts(after) | had
    placed = {fact.uid for fact in facts if isinstance(fact, GuestBound)}
    waited = {uid for uid, (_, is_bound) in had.items() if not is_bound} - placed
    kept = {after.run.uid} if after.run is not None and _keeps_room(before, after) else set()
    if after.runs_since_ns != before.runs_since_ns and after.move is not None:
        kept.add(after.move.uid)  # its fact only says since when the VM runs
    return tuple(_told(fact, parts, placed, waited, kept) for fact in facts)


def _keeps_room(before: Vm, after: Vm) -> bool:
    """Say whether a VM keeps all cpu and memory that it had: the event of its resize or growth says the rest."""
    had, has = before.run, after.run
    if had is None or has is None or had.uid != has.uid or not (had.is_bound and has.is_bound):
        return False
    return has.size.cpu_millis >= had.size.cpu_millis and has.size.memory_bytes >= had.size.memory_bytes


def _parts(vm: Vm) -> dict[str, tuple[Part, bool]]:
    """Return the part of each guest of a VM, and whether it has room."""
    claims: tuple[tuple[Part, Claim | None], ...]
    claims = (("run", vm.run), ("disk", vm.disk), ("grow", vm.grow), ("move", vm.move))
    return {claim.uid: (part, claim.is_bound) for part, claim in claims if claim is not None}


def _told(
    fact: Event, parts: dict[str, tuple[Part, bool]], placed: set[str], waited: set[str], kept: set[str]
) -> Event:
    match fact:
        case GuestArrived(guest=guest):
            part = _part(parts, guest.uid)
            return fact if part == "run" else PartArrival(at=fact.at, guest=guest, part=part)
        case GuestBound(uid=uid, host=host):
            part = _part(parts, uid)
            return fact if part == "run" else PartPlacement(at=fact.at, uid=uid, host=host, part=part)
        case GuestChanged(guest=guest):
            is_internal = guest.uid in kept and not guest.spec.is_leaving
            return PartChange(at=fact.at, guest=guest, is_internal=True) if is_internal else fact
        case GuestLeft(uid=uid):
            is_merged = uid in placed
            return PartDeparture(
                at=fact.at, uid=uid, part=_part(parts, uid), had_room=uid not in waited, is_merged=is_merged
            )
        case _:
            return fact


def _part(parts: dict[str, tuple[Part, bool]], uid: str) -> Part:
    return parts[uid][0] if uid in parts else "run"
