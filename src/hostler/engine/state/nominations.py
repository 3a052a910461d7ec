"""Memory of preemptions: where a guest waits for victims, and what it has evicted so far."""

from __future__ import annotations

import msgspec

__all__ = ["NOMINATION", "Attempts", "Nomination"]

NOMINATION = "nomination:"  # what the hold for a nominated guest is called before its uid


class Nomination(msgspec.Struct, frozen=True, omit_defaults=True):
    """The host where a guest waits for victims to leave, and the deadline."""

    host: str
    victims: tuple[str, ...]
    deadline: int
    seq: int


class Attempts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The preemptions of a guest so far: (time, host, number of victims) of each."""

    made: tuple[tuple[int, str, int], ...] = ()
