"""The guests elsewhere on which a dry run of one row depends: counts in the domains of that row.

A dry run evicts guests of one row only. So its result depends on the row itself, which the touch log covers, and on
what the peer rules of the preemptor read there: the count in the domain of the row, for a spread the lowest count of
the other domains, and for affinity whether guests outside the domain match. ``preemption`` repeats a dry run when one
of them differs.

Invariant: two dry runs of an untouched row with equal counts have equal results.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hostler.engine.cache.peer_table import PeerFilters
from hostler.engine.kernels.layout import PEER_AFFINITY, PEER_SPREAD, Int64s
from hostler.engine.state.state import State

__all__ = ["NO_PEERS", "PeerCounts"]


class PeerCounts(NamedTuple):
    """What the peer rules of a shape read, as one line per count and one column per row."""

    filters: PeerFilters
    lines: Int64s

    @classmethod
    def read(cls, state: State, slot: int) -> PeerCounts:
        """Read the counts of all rows for the shape in a slot."""
        filters = state.cache.guest_filters(slot)
        counters, rows = state.cluster.counters, state.cluster.rows
        lines = []
        for rule, number in zip(filters.rules, filters.counters, strict=True):
            counts = counters.counts(number, rows)
            lines.append(counts)
            if rule.kind == PEER_SPREAD:
                lines.append(counters.least_elsewhere(number, rule.params[2], rows))
            elif rule.kind == PEER_AFFINITY:
                # The first guest of a group may go anywhere: does any other match that stays while this row is emptied?
                lines.append((counts.clip(min=0) == counters.total(number)).astype(np.int64))
        return cls(filters, np.array(lines, dtype=np.int64).reshape(len(lines), rows))

    def rows_changed(self, before: PeerCounts) -> Int64s | None:
        """Return the rows whose counts changed since another reading, or None if the rules did."""
        if self.filters != before.filters:
            return None
        if self is before:
            return np.zeros(0, dtype=np.int64)
        known = before.lines.shape[1]
        differs = (self.lines[:, :known] != before.lines).any(axis=0)
        changed: Int64s = np.concatenate((np.flatnonzero(differs), np.arange(known, self.lines.shape[1])))
        return changed.astype(np.int64)


NO_PEERS = PeerCounts(PeerFilters((), (), may_be_first=False), np.zeros((0, 0), dtype=np.int64))
