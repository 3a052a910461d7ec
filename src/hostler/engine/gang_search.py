"""A bounded search for a gang that the greedy order could not place: depth first, deterministic, on the real books.

At each step the pending member with the fewest hosts is tried on its tightest hosts first. Sets of placements that were
seen before in another order are not tried again. What it books it takes back, unless it succeeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.kernels_layout import Bools
from hostler.engine.records import GuestRecord
from hostler.engine.shapes import Shape
from hostler.engine.state import State
from hostler.engine.transaction import Transaction

__all__ = ["EXPANSIONS", "Placement", "search"]

EXPANSIONS = 10_000
_MAX_MEMBERS = 64
_MAX_ROWS = 64  # hosts that one member is tried on


class Placement(NamedTuple):
    """Where a member goes."""

    record: GuestRecord
    row: int
    devices: tuple[int, ...]


class _Kind(NamedTuple):
    """Members of equal shape and policy."""

    shape: Shape
    policy: int
    slot: int
    records: tuple[GuestRecord, ...]


def search(
    state: State,
    transaction: Transaction,
    members: Sequence[tuple[GuestRecord, int]],
    need: int,
    among: Bools | None = None,
    expansions: int = EXPANSIONS,
) -> list[Placement] | None:
    """Place at least ``need`` of the members (record, policy) inside a transaction, or nobody."""
    if need > _MAX_MEMBERS or len(members) > 4 * _MAX_MEMBERS:
        return None
    return _Search(state, transaction, members, need, among, expansions).solve()


class _Search:
    def __init__(
        self,
        state: State,
        transaction: Transaction,
        members: Sequence[tuple[GuestRecord, int]],
        need: int,
        among: Bools | None,
        expansions: int,
    ) -> None:
        self._state = state
        self._transaction = transaction
        self._need = need
        self._among = among
        self._left = expansions
        self._seen: set[tuple[tuple[int, int], ...]] = set()
        by_kind: dict[tuple[int, int], list[GuestRecord]] = {}
        for record, policy in members:
            by_kind.setdefault((record.shape, policy), []).append(record)
        shapes = state.shapes.shapes
        self._kinds = [
            _Kind(shapes[shape], policy, state.cache.slot(shapes[shape], policy), tuple(records))
            for (shape, policy), records in by_kind.items()
        ]
        # Without affinity and spread a placement only closes hosts, so that the order of placements does not matter.
        self._only_closes = not any(self._may_improve(kind) for kind in self._kinds)
        self._used = [0] * len(self._kinds)
        self._placed: list[tuple[int, int, tuple[int, ...]]] = []  # kind, row, devices

    def solve(self) -> list[Placement] | None:
        if len(self._kinds) == 1 and self._only_closes and not self._kinds[0].shape.spec.anti_affinity:
            return None  # each host takes so many, whatever the others have: the greedy order reached the most
        if not self._expand():
            return None
        taken = [0] * len(self._kinds)
        result = []
        for kind, row, devices in self._placed:
            result.append(Placement(self._kinds[kind].records[taken[kind]], row, devices))
            taken[kind] += 1
        return result

    def _expand(self) -> bool:
        if len(self._placed) >= self._need:
            return True
        options = self._options()
        if options is None:
            return False
        for kind, rows in options:
            for row in rows:
                if self._left <= 0:
                    return False
                if self._try(kind, row):
                    return True
            if self._only_closes and self._must_place(kind):
                return False  # the kind must go somewhere, and nothing that comes later opens a host for it
        return False

    def _must_place(self, kind: int) -> bool:
        """Say whether the minimum cannot be reached without another member of a kind."""
        others = sum(len(k.records) - used for k, used in zip(self._kinds, self._used, strict=True))
        own = len(self._kinds[kind].records) - self._used[kind]
        return len(self._placed) + others - own < self._need

    def _options(self) -> list[tuple[int, list[int]]] | None:
        """Return the kinds that can go somewhere, the one with the fewest hosts first; None for a dead end."""
        options = []
        pending = [at for at, kind in enumerate(self._kinds) if self._used[at] < len(kind.records)]
        self._state.cache.refresh([self._kinds[at].slot for at in pending])
        for at in pending:
            kind = self._kinds[at]
            rows = self._rows(kind)
            if not rows and not self._may_improve(kind) and self._must_place(at):
                return None
            if rows:
                options.append((at, rows))
        options.sort(key=lambda option: (len(option[1]), -sum(a for _, a in self._kinds[option[0]].shape.amounts)))
        return options or None

    def _may_improve(self, kind: _Kind) -> bool:
        """Say whether placing others can open hosts for a kind."""
        return bool(kind.shape.spec.affinity or kind.shape.spec.spread)

    def _rows(self, kind: _Kind) -> list[int]:
        """Return the hosts that take a kind now, tightest first."""
        rows = self._state.cache.feasible_rows(kind.slot)
        if self._among is not None:
            rows = rows[self._among[rows]]
        cluster = self._state.cluster
        columns = cluster.columns()
        limits = columns.limit[self._state.profiles.profiles[kind.policy].limit_set]
        slack = np.zeros(len(rows), dtype=np.float64)
        for resource, amount in kind.shape.amounts:
            whole = limits[rows, resource].astype(np.float64)
            left = whole - columns.used[rows, resource] - amount
            slack += np.divide(left, whole, out=np.zeros_like(whole), where=whole > 0)
        order = np.lexsort((columns.name_key[rows], slack))[:_MAX_ROWS]
        tightest: list[int] = rows[order].tolist()
        return tightest

    def _try(self, kind: int, row: int) -> bool:
        signature = tuple(sorted([(k, r) for k, r, _ in self._placed] + [(kind, row)]))
        if signature in self._seen:
            return False
        self._seen.add(signature)
        self._left -= 1
        chosen = self._kinds[kind]
        state = self._state
        mark = self._transaction.mark()
        devices = state.cache.choose_devices(chosen.slot, row, 0, chosen.shape.device_count)
        record = chosen.records[self._used[kind]]
        self._transaction.book(row, chosen.shape, devices, record.guest.uid)
        self._used[kind] += 1
        self._placed.append((kind, row, devices))
        if self._expand():
            return True
        self._transaction.undo(mark)
        self._used[kind] -= 1
        self._placed.pop()
        return False
