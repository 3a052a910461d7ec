"""Peer rules of the shapes in the verdict cache, as columns for the kernels, with the counters that they use.

``policy.peer_rules`` lists the rules of one shape; ``kernels.guests`` evaluates them. Invariant: the cache reads a slot
only after ``write`` in the current version of the counters, because a counter's number may be reused after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.cluster import Cluster
from hostler.engine.cluster.shapes import Shape
from hostler.engine.kernels.layout import (
    PEER_PARAMS,
    PEER_PREFER,
    Floats,
    Int8s,
    Int16s,
    Int32s,
    Int64s,
    PeerColumns,
)
from hostler.engine.policy.peer_rules import PeerOptions, PeerRule, PeerRules, list_peer_rules
from hostler.model import Reason

__all__ = ["PeerFilters", "PeerTable"]

_NOTHING = PeerRules((), 0, may_be_first=False, all_keys=False)


class PeerFilters(NamedTuple):
    """The rules of a shape that can reject hosts, in the order in which the kernel checks them, and their counters."""

    rules: tuple[PeerRule, ...]
    counters: tuple[int, ...]
    may_be_first: bool


class PeerTable:
    """One entry per slot of the verdict cache, rebuilt when counters come or go."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lists: dict[int, PeerRules] = {}
        self._counters: dict[int, list[int]] = {}
        self._reasons: dict[int, list[Reason]] = {}  # of the filters, each once, in order of the rules
        self._stamps: dict[int, int] = {}
        self._listed: dict[int, tuple[int, Shape, PeerOptions]] = {}  # what the rules of a slot were made from
        self._sizes = (0, 0, 0)
        self._grow(8, 4, 4)
        self._seen = np.zeros(0, dtype=np.int64)
        self._tick = np.zeros(1, dtype=np.int64)

    def rules_of(self, slot: int) -> PeerRules:
        """Return the rules of the shape in a slot."""
        return self._lists.get(slot, _NOTHING)

    def is_stale(self, slot: int) -> bool:
        """Say whether counters came or went since the slot was written."""
        return self._stamps.get(slot) != self._cluster.counters.version

    def write(self, slot: int, shape: Shape, options: PeerOptions) -> bool:
        """Bring a slot up to date; return whether its rules changed.

        A slot keeps the counters that it uses. If only counters of other slots came or went, its guests shift other
        counters, and its rules stay the same.
        """
        counters = self._cluster.counters
        shifts = counters.shifts_of(shape)
        listed = (counters.terms_version, shape, options)
        known = self._listed.get(slot)
        if known is not None and known[0] == listed[0] and known[1] is shape and known[2] is options:
            self._stamps[slot] = counters.version
            self._write_shifts(slot, shifts)
            return False
        rules = list_peer_rules(shape.spec, options, counters)
        self._listed[slot] = listed
        hosts, marks = self._cluster.host_at, self._cluster.marks
        numbers = [counters.acquire(rule.key, hosts, marks) for rule in rules.rules]
        for number in self._counters.pop(slot, ()):
            counters.release(number)
        changed = self._lists.get(slot, _NOTHING) != rules or not self._has(slot, numbers)
        self._counters[slot] = numbers
        self._lists[slot] = rules
        self._stamps[slot] = counters.version
        self._grow(slot + 1, len(numbers), 0)
        self._rules[slot] = len(numbers)
        self._filters[slot] = rules.filters
        self._first[slot] = rules.may_be_first
        self._all_keys[slot] = rules.all_keys
        positions: dict[Reason, int] = {}
        for at, (rule, number) in enumerate(zip(rules.rules, numbers, strict=True)):
            self._kind[slot, at] = rule.kind
            self._counter[slot, at] = number
            self._params[slot, at, : len(rule.params)] = rule.params
            self._code[slot, at] = self._code_of(rule.reason, positions)
            self._code_absent[slot, at] = self._code_of(rule.reason_absent, positions)
        self._reasons[slot] = list(positions)
        self._write_shifts(slot, shifts)
        return changed

    def _write_shifts(self, slot: int, shifts: Sequence[tuple[int, int]]) -> None:
        """Write which counters change when a guest of the shape in a slot is placed."""
        self._grow(slot + 1, 0, len(shifts))
        self._shifts[slot] = len(shifts)
        if shifts:
            self._shift_counter[slot, : len(shifts)] = [number for number, _ in shifts]
            self._shift_by[slot, : len(shifts)] = [times for _, times in shifts]

    def filters_of(self, slot: int) -> PeerFilters:
        """Return the filters of a slot that was written; KeyError for one that was not."""
        rules = self._lists[slot]
        return PeerFilters(
            rules.rules[: rules.filters], tuple(self._counters[slot][: rules.filters]), may_be_first=rules.may_be_first
        )

    def reasons(self, slot: int) -> Sequence[Reason]:
        """Return the reasons that the codes of rules stand for, by position."""
        return self._reasons.get(slot, ())

    def _code_of(self, reason: Reason | None, positions: dict[Reason, int]) -> int:
        """Return the code of a reason by its position among those of one shape.

        A code per text would need as many codes as there are guests.
        """
        if reason is None:
            return 0
        return self._cluster.tables.reasons.code_by_position(positions.setdefault(reason, len(positions)), reason)

    def has_rule_of(self, slot: int, kind: int) -> bool:
        """Say whether the shape in a slot has a rule of a kind."""
        return any(rule.kind == kind for rule in self.rules_of(slot).rules)

    def has_preferred_peers(self, slot: int) -> bool:
        """Say whether any guest that the shape in a slot wants near or far is placed."""
        counters = self._cluster.counters
        rules = zip(self._lists[slot].rules, self._counters[slot], strict=True)
        return any(rule.kind == PEER_PREFER and counters.total(number) for rule, number in rules)

    def clear(self, slot: int) -> None:
        """Release the counters of a slot."""
        for number in self._counters.pop(slot, ()):
            self._cluster.counters.release(number)
        self._lists.pop(slot, None)
        self._reasons.pop(slot, None)
        self._stamps.pop(slot, None)
        self._listed.pop(slot, None)
        if slot < len(self._rules):
            self._rules[slot] = 0
            self._shifts[slot] = 0

    def clear_all(self) -> None:
        """Release the counters of all slots."""
        for slot in list(self._stamps):
            self.clear(slot)

    @property
    def size_bytes(self) -> int:
        """Return the memory of the arrays and of the counters."""
        slots, rules, shifts = self._sizes
        per_rule = 1 + 4 + 8 * PEER_PARAMS + 2 + 2
        return slots * (18 + rules * per_rule + shifts * 8) + self._cluster.counters.size_bytes

    def release_all(self) -> None:
        """Release all counters, and free the memory of the arrays."""
        self.clear_all()
        self._sizes = (0, 0, 0)
        self._forget_arrays()
        self._grow(8, 4, 4)
        self._cluster.counters.shrink()

    def columns(self) -> PeerColumns:
        """Return the arrays for a kernel."""
        width = self._cluster.counters.domains.width
        if len(self._seen) < width:
            self._seen = np.zeros(width, dtype=np.int64)
        return PeerColumns(
            self._rules, self._filters, self._kind, self._counter, self._params, self._code, self._code_absent,
            self._first, self._all_keys, self._shifts, self._shift_counter, self._shift_by, self._least,
            self._log_size, self._seen, self._tick,
        )  # fmt: skip

    def _has(self, slot: int, numbers: list[int]) -> bool:
        return slot < len(self._rules) and self._counter[slot, : len(numbers)].tolist() == numbers

    def _grow(self, slots: int, rules: int, shifts: int) -> None:
        """Make the arrays large enough; they never shrink."""
        held = self._sizes
        if slots <= held[0] and rules <= held[1] and shifts <= held[2]:
            return
        needs = (slots, rules, shifts)
        n, j, i = (2 * need if need > have else have for have, need in zip(held, needs, strict=True))
        for name, shape, dtype in self._layout(n, j, i):
            fresh: np.ndarray[tuple[int, ...], np.dtype[np.generic]] = np.zeros(shape, dtype=dtype)
            old = getattr(self, name, None)
            if old is not None:
                fresh[tuple(slice(0, size) for size in old.shape)] = old
            setattr(self, name, fresh)
        self._sizes = (n, j, i)

    def _forget_arrays(self) -> None:
        for name, _, _ in self._layout(0, 0, 0):
            delattr(self, name)

    @staticmethod
    def _layout(n: int, j: int, i: int) -> tuple[tuple[str, tuple[int, ...], type], ...]:
        """Return name, shape and type of the arrays for so many slots, rules and shifts."""
        return (
            ("_rules", (n,), np.int32),
            ("_filters", (n,), np.int32),
            ("_kind", (n, j), np.int8),
            ("_counter", (n, j), np.int32),
            ("_params", (n, j, PEER_PARAMS), np.int64),
            ("_code", (n, j), np.int16),
            ("_code_absent", (n, j), np.int16),
            ("_first", (n,), np.int8),
            ("_all_keys", (n,), np.int8),
            ("_shifts", (n,), np.int32),
            ("_shift_counter", (n, i), np.int32),
            ("_shift_by", (n, i), np.int32),
            ("_least", (j,), np.int64),
            ("_log_size", (j,), np.float64),
        )

    _rules: Int32s
    _filters: Int32s
    _kind: Int8s
    _counter: Int32s
    _params: Int64s
    _code: Int16s
    _code_absent: Int16s
    _first: Int8s
    _all_keys: Int8s
    _shifts: Int32s
    _shift_counter: Int32s
    _shift_by: Int32s
    _least: Int64s
    _log_size: Floats
