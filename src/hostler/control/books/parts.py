"""Which part of a VM a fact is about, as the log keeps it for people: the engine knows guests, and none of their parts.

A VM has a guest for running, one for the disks that it keeps, one for what it grows by and one at the other end of a
move. Owners are told of their VM, not of four guests. Pure; used by ``ledger``.
"""

from __future__ import annotations

from typing import Literal

from hostler.control.vms.state import Claim, Vm
from hostler.model import Event, GuestArrived, GuestBound, GuestLeft

__all__ = ["Arrived", "Bound", "Left", "Part", "told_apart"]

Part = Literal["run", "disk", "grow", "move"]


class Arrived(GuestArrived, frozen=True, tag="guest_arrived"):
    """A guest that wants a place or has one, and what it is of its VM."""

    part: Part = "run"


class Bound(GuestBound, frozen=True, tag="guest_bound"):
    """A guest that was placed, and what it is of its VM."""

    part: Part = "run"


class Left(GuestLeft, frozen=True, tag="guest_left"):
    """A guest that left, and what it was of its VM. One that had no room gave none back.

    What a VM grew by leaves as soon as it is placed, because it is a part of the rest from then on: ``is_merged``.
    """

    part: Part = "run"
    had_room: bool = True
    is_merged: bool = False


def told_apart(before: Vm, after: Vm, facts: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return facts about a VM with the parts that they are about; those about running, which most are, stay."""
    had = _parts(before)
    parts = _parts(after) | had
    placed = {fact.uid for fact in facts if isinstance(fact, GuestBound)}
    waited = {uid for uid, (_, is_bound) in had.items() if not is_bound} - placed
    return tuple(_told(fact, parts, placed, waited) for fact in facts)


def _parts(vm: Vm) -> dict[str, tuple[Part, bool]]:
    """Return what each guest is of a VM, and whether it has room."""
    claims: tuple[tuple[Part, Claim | None], ...]
    claims = (("run", vm.run), ("disk", vm.disk), ("grow", vm.grow), ("move", vm.move))
    return {claim.uid: (part, claim.is_bound) for part, claim in claims if claim is not None}


def _told(fact: Event, parts: dict[str, tuple[Part, bool]], placed: set[str], waited: set[str]) -> Event:
    match fact:
        case GuestArrived(guest=guest):
            part = _part(parts, guest.uid)
            return fact if part == "run" else Arrived(at=fact.at, guest=guest, part=part)
        case GuestBound(uid=uid, host=host):
            part = _part(parts, uid)
            return fact if part == "run" else Bound(at=fact.at, uid=uid, host=host, part=part)
        case GuestLeft(uid=uid):
            is_merged = uid in placed
            return Left(at=fact.at, uid=uid, part=_part(parts, uid), had_room=uid not in waited, is_merged=is_merged)
        case _:
            return fact


def _part(parts: dict[str, tuple[Part, bool]], uid: str) -> Part:
    return parts[uid][0] if uid in parts else "run"
