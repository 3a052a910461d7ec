"""How many members of one shape the hosts take, counted from amounts instead of tried.

A gang of equal members without rules about other guests fills each host up to its amounts, whatever the others have.
So the greedy order reaches the same number in any order, and a count replaces the trials of domains that are too small.
Only the number is known then: who goes where, and why others are rejected, still takes a trial.

Invariant: a count is exact, or there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.profiles import NO_POLICY
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.state import State

__all__ = ["members_per_row"]


def members_per_row(state: State, members: Sequence[GuestRecord]) -> Int64s | None:
    """Return how many of these equal members each row takes now; None if more than amounts and marks decide that.

    No row counts more than all members. Holds are left to trials: members may have different rights to them.
    """
    if not members:  # all of them are beyond their quota
        return None
    first = members[0]
    policy = state.profiles.find_number(first.guest.spec.policy)
    if policy == NO_POLICY or len(state.cluster.holds) or any(record.shape != first.shape for record in members):
        return None
    shape, profile = state.shapes.shapes[first.shape], state.profiles.profiles[policy]
    spec = shape.spec
    has_rules = spec.ports or spec.affinity or spec.anti_affinity or spec.spread or spec.siblings is not None
    if has_rules or shape.asks or shape.unknown or not profile.is_static or profile.takes_turns:
        return None
    slot = state.cache.slot(shape, policy)
    if state.cache.guest_filters(slot).rules:
        return None  # other guests have rules about this one
    codes, _ = state.cache.codes(slot)
    rows = np.flatnonzero(codes == 0)
    columns = state.cluster.columns()
    resources = [resource for resource, amount in shape.amounts if amount > 0]
    asked = np.array([amount for _, amount in shape.amounts if amount > 0], dtype=np.int64)
    free = columns.limit[profile.limit_set, rows][:, resources] - columns.used[rows][:, resources]
    takes = np.zeros(state.cluster.rows, dtype=np.int64)
    takes[rows] = np.minimum((free // asked).min(axis=1, initial=len(members)), len(members))
    return takes
