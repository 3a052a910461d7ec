"""Destinations: where guests could go that leave their hosts while they run, all of them together. Pure.

The one planner of moves: preemption moves victims by it, and drains and rebalancing can ask it the same question. The
caller opens a transaction, takes the guests off their hosts in it, and books what will come to those hosts. Each guest
that finds a destination is booked there in the same transaction, so no two guests get the same room. Undo it, or read
the answer and undo it: this module commits nothing.

Invariant: a guest stays off every closed row, and goes only to a host that takes it under all rules of its policy while
all guests planned before it are there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from hostler.engine.cluster.randomness import PLACEMENT, draw, guest_key
from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.profiles import NO_POLICY
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction
from hostler.engine.verdicts.selection import best_row
from hostler.model import Labels

__all__ = ["can_move", "find_destinations", "rows_for"]


def can_move(state: State, record: GuestRecord) -> bool:
    """Say whether a placed guest can leave its host while it runs. Guests with devices cannot."""
    spec = record.guest.spec
    row = state.cluster.row_of.get(record.host)
    if row is None or spec.move_labels is None or spec.is_pinned or spec.is_leaving or spec.devices:
        return False
    return _has_labels(state, row, spec.move_labels)


def find_destinations(
    state: State, transaction: Transaction, guests: Sequence[str], closed: Collection[int]
) -> dict[str, str]:
    """Book destinations for guests that the transaction took off their hosts; return guests with their new hosts.

    The more important guests choose first, then the larger ones. Guests without a destination are left out.
    """
    found: dict[str, str] = {}
    for record in _in_order(state, guests):
        state.pause()
        if not can_move(state, record):
            continue
        rows = [
            row
            for row in rows_for(state, record).tolist()
            if row not in closed and _has_labels(state, row, record.guest.spec.move_labels or ())
        ]
        if not rows:
            continue
        shape, policy = state.shape(record), state.profiles.find_number(record.guest.spec.policy)
        slot = state.cache.slot(shape, policy)
        number = draw(state.seed, guest_key(record.guest), record.attempts, PLACEMENT)
        row, _ = best_row(state, slot, policy, np.array(rows, dtype=np.int64), {}, number)
        transaction.book(row, shape, (), record.guest.uid)
        found[record.guest.uid] = state.cluster.host(row).name
    return found


def rows_for(state: State, record: GuestRecord) -> Int64s:
    """Return the rows that would take a guest now, with all rules of its policy."""
    policy = state.profiles.find_number(record.guest.spec.policy)
    if policy == NO_POLICY:
        return np.zeros(0, dtype=np.int64)
    codes, _ = state.cache.codes(state.cache.slot(state.shape(record), policy))
    rows: Int64s = np.flatnonzero(codes == 0).astype(np.int64)
    return rows


def _in_order(state: State, guests: Sequence[str]) -> list[GuestRecord]:
    limits = state.cluster.columns().limit[0].sum(axis=0, dtype=np.float64)

    def size(record: GuestRecord) -> float:
        amounts = state.shape(record).amounts
        return max((amount / max(float(limits[resource]), 1.0) for resource, amount in amounts), default=0.0)

    records = [state.guests[uid] for uid in guests]
    return sorted(records, key=lambda record: (-record.guest.spec.priority, -size(record), record.guest.uid))


def _has_labels(state: State, row: int, needed: Labels) -> bool:
    return not needed or set(needed) <= set(state.cluster.host(row).labels)
