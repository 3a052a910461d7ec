"""Guest records: one immutable record per guest, replaced at each transition.

Because records are immutable, a fork copies one dictionary.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hostler.model import Answered, Guest, GuestSpec, Reason
from hostler.model.decisions import DecisionNote

__all__ = ["ASKED", "ASSUMED", "BOUND", "GROUPED", "PLACED_STATES", "PREPARING", "QUEUED", "STATE_NAMES", "GuestRecord"]

QUEUED: Final = 0  # pending; the queue says whether active, in backoff or waiting
ASKED: Final = 1  # an answer from outside is awaited
PREPARING: Final = 2  # placed, something must be got ready on the host first
ASSUMED: Final = 3  # placed, the bind was handed out
BOUND: Final = 4  # placed, the bind was confirmed (or came from outside)
GROUPED: Final = 5  # pending with its gang; the gang's queue entry says how it waits

STATE_NAMES: Final = ("queued", "asked", "preparing", "assumed", "bound", "gated")
PLACED_STATES: Final = (PREPARING, ASSUMED, BOUND)


class GuestRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A guest, its state, and its last decision in short form."""

    guest: Guest
    shape: int
    state: int
    arrival: int  # sequence of arrival: age among guests of equal priority
    host: str = ""
    devices: tuple[int, ...] = ()
    attempts: int = 0
    refusals: int = 0  # refused in a row
    errors: int = 0  # failed outside in a row
    deadline: int = 0  # of an Ask or a Prepare
    ask: int = 0
    answer: Answered | None = None
    seq: int = 0
    decided_at: int = 0
    total: int | float | None = None
    feasible: int = 0
    reasons: tuple[tuple[Reason, int], ...] = ()  # why hosts rejected it, with how many of them
    notes: tuple[DecisionNote, ...] = ()  # what the decision says beside its reasons
    turn: str = ""  # the policy whose turn the last decision took, where that policy takes turns
    decided_spec: GuestSpec | None = None  # what the last decision was about, where the guest changed since
    counts: tuple[tuple[int, int], ...] = ()  # in checkpoints, instead of ``reasons``: by number in the list there
    note: str = ""  # in checkpoints of older versions, instead of ``notes``
