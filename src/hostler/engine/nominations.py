"""What is remembered of preemptions: where a guest waits for victims, and what it has evicted so far."""

from __future__ import annotations

import msgspec

__all__ = ["NOMINATION", "Attempts", "Nomination"]

NOMINATION = "nomination:"  # what the hold for a nominated guest is called before its uid


class Nomination(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a guest waits for victims to leave, and until when."""

    host: str
    victims: tuple[str, ...]
    deadline: int
    seq: int


class Attempts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a preemptor has evicted so far: (time, host, guests) of each preemption."""

    made: tuple[tuple[int, str, int], ...] = ()
