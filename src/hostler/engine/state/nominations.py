"""Memory of preemptions: where a guest waits for victims, and what it has evicted so far."""

from __future__ import annotations

import msgspec

__all__ = ["MOVE", "NOMINATION", "Attempts", "Nomination", "VictimMove"]

NOMINATION = "nomination:"  # what the hold for a nominated guest is called before its uid
MOVE = "move:"  # what the hold for a victim at its destination is called before its uid


class Nomination(msgspec.Struct, frozen=True, omit_defaults=True):
    """The host where a guest waits for victims to leave, and the deadline."""

    host: str
    victims: tuple[str, ...]
    deadline: int
    seq: int


class VictimMove(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a victim moves to. ``replacement``: the guest that has its room there; until it arrives, room is held."""

    host: str
    replacement: str = ""


class Attempts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The preemptions of a guest so far: (time, host, number of victims) of each."""

    made: tuple[tuple[int, str, int], ...] = ()
