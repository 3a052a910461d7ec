"""Rejecting hosts, counted by reason: the short form of an explanation, for fronts that report on many guests.

A host is counted under every amount that it lacks, not only under the first reason, as people and tools expect of a
scheduler's message. Whole columns are compared at once; only hosts with other reasons than amounts are judged one by
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import TypeAlias

import numpy as np

from hostler.engine.cluster.shapes import Shape
from hostler.engine.cluster.tables import UNKNOWN_RESOURCE
from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.profile import Profile
from hostler.engine.state.nominations import NOMINATION
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.state import State
from hostler.engine.verdicts.verdicts import failures_on
from hostler.model import Reason

__all__ = ["Refusals", "refusals_of"]

Refusals: TypeAlias = tuple[tuple[tuple[Reason, ...], int], ...]  # what hosts say, and how many of them

_ROOM = "resources"
_MAX_MASKED = 62  # resources that fit into one mask


def refusals_of(state: State, record: GuestRecord, policy: int, only: Collection[str] | None = None) -> Refusals:
    """Count the hosts by their reasons for a guest; ``only`` restricts the hosts."""
    shape, profile = state.shape(record), state.profiles.profiles[policy]
    slot = state.cache.slot(shape, policy)
    codes, _ = state.cache.codes(slot)
    rows = np.flatnonzero((codes != 0) & state.cluster.columns().present[: len(codes)].astype(bool))
    if only is not None:
        wanted = [state.cluster.row_of[name] for name in only if name in state.cluster.row_of]
        rows = rows[np.isin(rows, wanted)]
    values = state.tables.reasons.values
    is_room = np.array([reason.plugin == _ROOM for reason in values])[codes[rows]]
    found: Counter[tuple[Reason, ...]] = Counter()
    for code, hosts in zip(*np.unique(codes[rows[~is_room]], return_counts=True), strict=True):
        found[(state.cache.reason(slot, int(code)),)] += int(hosts)
    for reasons, hosts in _lacking(state, shape, profile, rows[is_room], NOMINATION + record.guest.uid):
        found[reasons] += hosts
    return tuple(found.items())


def _lacking(
    state: State, shape: Shape, profile: Profile, rows: Int64s, own_hold: str
) -> Iterator[tuple[tuple[Reason, ...], int]]:
    """Group hosts that lack room by all their reasons; holds for the guest itself do not count."""
    cluster = state.cluster
    alone = bool(shape.spec.ports or shape.asks) or len(shape.amounts) > _MAX_MASKED
    singly = [row for row in rows.tolist() if alone or any(name != own_hold for name, _ in cluster.holds.on(row))]
    for row in singly:
        yield tuple(failure.reason for failure in failures_on(state, profile, shape, row, own_hold=own_hold)), 1
    plain = rows[~np.isin(rows, singly)]
    columns = cluster.columns()
    mask = np.zeros(len(plain), dtype=np.int64)
    for bit, (resource, amount) in enumerate(shape.amounts):
        free = columns.limit[profile.limit_set, plain, resource] - columns.used[plain, resource]
        mask |= (amount > free).astype(np.int64) << bit
    for row in plain[mask == 0].tolist():  # only what is held for the guest itself is in its way, or more than amounts
        reasons = tuple(failure.reason for failure in failures_on(state, profile, shape, row, own_hold=own_hold))
        if reasons:
            yield reasons, 1
    for bits, hosts in zip(*np.unique(mask[mask != 0], return_counts=True), strict=True):
        lacks = [resource for bit, (resource, _) in enumerate(shape.amounts) if int(bits) >> bit & 1]
        yield tuple(reason for one in lacks for reason in _insufficient(state, shape, one)), int(hosts)


def _insufficient(state: State, shape: Shape, resource: int) -> Iterator[Reason]:
    names = shape.unknown if resource == UNKNOWN_RESOURCE else (state.tables.resources.values[resource],)
    return (Reason(_ROOM, "insufficient", name) for name in names)
