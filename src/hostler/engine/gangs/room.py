"""A quick bound by amounts on whether a waiting gang may fit, so that hopeless gangs are not tried again."""

from __future__ import annotations

import numpy as np

from hostler.engine.kernels.layout import Int64s
from hostler.engine.plugins.cordon import Cordon
from hostler.engine.state.records import GROUPED
from hostler.engine.state.state import State

__all__ = ["GangRoom"]


class GangRoom:
    """Free amounts now, and results for gangs of equal members. Rebuilt whenever something changes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._free: Int64s | None = None
        self._known: dict[tuple[frozenset[int], int, str], bool] = {}

    def may_fit(self, key: str) -> bool:
        """Say whether the amounts allow as many members as a gang needs, within one domain if it needs one.

        Every member counts as the smallest one, and only amounts are compared, so a "no" is certain.
        """
        state = self._state
        gang = state.gangs.gangs.get(key)
        members = [state.guests[uid] for uid in state.gangs.pending(key)]
        shapes = frozenset(record.shape for record in members if record.state == GROUPED)
        if gang is None or not shapes or (gang.head_of_line == "reserve" and not state.gangs.reserving):
            return True
        need = max(gang.min_count - len(state.gangs.placed(key)), 1)
        kind = (shapes, need, gang.topology)
        if kind not in self._known:
            self._known[kind] = self._has_room(shapes, need, gang.topology)
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
