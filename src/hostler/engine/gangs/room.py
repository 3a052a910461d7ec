"""A quick bound by amounts on whether a waiting gang may fit, so that hopeless gangs are not tried again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hostler.engine.kernels.layout import Int64s
from hostler.engine.plugins.cordon import Cordon
from hostler.engine.state.records import GROUPED, PLACED_STATES, GuestRecord
from hostler.engine.state.state import State
from hostler.model import Gang

__all__ = ["GangKinds", "GangRoom"]

_SPARE = 64  # kinds of gangs that are gone and may stay known


class GangKind(NamedTuple):
    """What a bound needs of a gang: equal gangs have equal answers."""

    shapes: frozenset[int]  # of the members to place
    need: int
    topology: str


class GangKinds:
    """The kinds of gangs, remembered as long as neither the gang nor a record of its members was replaced."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[str, tuple[Gang, list[GuestRecord], GangKind | None]] = {}

    def find(self, gang: Gang, key: str) -> GangKind | None:
        """Return the kind of a gang; None if it has no member to place."""
        state = self._state
        records = list(map(state.guests.__getitem__, state.gangs.members.get(key, ())))
        known = self._known.get(key)
        # Records are immutable, and lists compare their elements by identity first.
        if known is not None and known[0] is gang and known[1] == records:
            return known[2]
        shapes = frozenset(record.shape for record in records if record.state == GROUPED)
        placed = sum(record.state in PLACED_STATES for record in records)
        kind = GangKind(shapes, max(gang.min_count - placed, 1), gang.topology) if shapes else None
        if len(self._known) > 2 * len(state.gangs.gangs) + _SPARE:
            self._known.clear()
        self._known[key] = (gang, records, kind)
        return kind


class GangRoom:
    """Free amounts now, and results for gangs of equal kinds. Rebuilt whenever something changes."""

    def __init__(self, state: State, kinds: GangKinds) -> None:
        self._state = state
        self._kinds = kinds
        self._free: Int64s | None = None
        self._known: dict[GangKind, bool] = {}

    def may_fit(self, key: str) -> bool:
        """Say whether the amounts allow as many members as a gang needs, within one domain if it needs one.

        Every member counts as the smallest one, and only amounts are compared, so a "no" is certain.
        """
        state = self._state
        gang = state.gangs.gangs.get(key)
        if gang is None or (gang.head_of_line == "reserve" and not state.gangs.reserving):
            return True
        kind = self._kinds.find(gang, key)
        if kind is None:
            return True
        if kind not in self._known:
            self._known[kind] = self._has_room(kind.shapes, kind.need, kind.topology)
        return self._known[kind]

    def _has_room(self, shapes: frozenset[int], need: int, topology: str) -> bool:
        cluster = self._state.cluster
        amounts = [dict(self._state.shapes.shapes[number].amounts) for number in shapes]
        common = set.intersection(*(set(each) for each in amounts))
        least = {resource: min(each[resource] for each in amounts) for resource in common}
        if self._free is None:
            columns = cluster.columns()
            free = columns.limit.max(axis=0) - columns.used
            is_open = columns.present != 0
            if all(any(use.name == Cordon.name for use in policy.filters) for policy in self._state.profiles.policies):
                is_open = is_open & ~cluster.marks.cordoned[: len(is_open)]
            self._free = np.where(is_open[:, None], np.maximum(free, 0), 0)[: cluster.rows]
        takes = np.full(cluster.rows, need, dtype=np.int64)  # more than all of them on one host does not matter
        for resource, amount in least.items():
            if amount > 0:
                takes = np.minimum(takes, self._free[:, resource] // amount)
        if not topology:
            return int(takes.sum()) >= need
        domain, _ = cluster.marks.column(topology)
        inside = domain[: cluster.rows] >= 0
        in_domain = np.bincount(domain[: cluster.rows][inside], weights=takes[inside], minlength=1)
        return bool(in_domain.max() >= need)
