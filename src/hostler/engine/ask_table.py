"""What the shapes in the cache ask about other guests, as columns for the kernels, with the counters they hold."""

from __future__ import annotations

import numpy as np

from hostler.engine.asks import AskList, AskOptions, list_asks
from hostler.engine.cluster import Cluster
from hostler.engine.kernels_layout import (
    ASK_PARAMS,
    ASK_PREFER,
    AskColumns,
    Floats,
    Int8s,
    Int16s,
    Int32s,
    Int64s,
)
from hostler.engine.shapes import Shape

__all__ = ["AskTable"]

_NOTHING = AskList((), 0, may_be_first=False, all_keys=False)


class AskTable:
    """One entry per slot of the verdict cache, made again when counters come or go."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lists: dict[int, AskList] = {}
        self._counters: dict[int, list[int]] = {}
        self._stamps: dict[int, int] = {}
        self._sizes = (0, 0, 0)
        self._grow(8, 4, 4)
        self._seen = np.zeros(0, dtype=np.int64)
        self._tick = np.zeros(1, dtype=np.int64)

    def list_of(self, slot: int) -> AskList:
        """Return what the shape in a slot asks."""
        return self._lists.get(slot, _NOTHING)

    def is_stale(self, slot: int) -> bool:
        """Say whether counters came or went since the slot was written."""
        return self._stamps.get(slot) != self._cluster.counters.version

    def write(self, slot: int, shape: Shape, options: AskOptions) -> bool:
        """Bring a slot up to date; say whether what it asks changed."""
        counters = self._cluster.counters
        shifts = counters.shifts_of(shape)
        asks = list_asks(shape.spec, options, counters)
        hosts, marks = self._cluster.host_at, self._cluster.marks
        numbers = [counters.acquire(ask.key, hosts, marks) for ask in asks.asks]
        for number in self._counters.pop(slot, ()):
            counters.release(number)
        changed = self._lists.get(slot, _NOTHING) != asks or not self._has(slot, numbers)
        self._counters[slot] = numbers
        self._lists[slot] = asks
        self._stamps[slot] = counters.version
        self._grow(slot + 1, len(numbers), len(shifts))
        self._asks[slot] = len(numbers)
        self._filters[slot] = asks.filters
        self._first[slot] = asks.may_be_first
        self._all_keys[slot] = asks.all_keys
        reasons = self._cluster.tables.reasons
        for at, (ask, number) in enumerate(zip(asks.asks, numbers, strict=True)):
            self._kind[slot, at] = ask.kind
            self._counter[slot, at] = number
            self._params[slot, at, : len(ask.params)] = ask.params
            self._code[slot, at] = reasons.number(ask.reason) if ask.reason is not None else 0
            self._code_absent[slot, at] = reasons.number(ask.reason_absent) if ask.reason_absent is not None else 0
        self._shifts[slot] = len(shifts)
        for at, (number, times) in enumerate(shifts):
            self._shift_counter[slot, at] = number
            self._shift_by[slot, at] = times
        return changed

    def counter(self, slot: int, at: int) -> int:
        """Return the counter of the slot's ask at a position."""
        return self._counters[slot][at]

    def asks_any(self, slot: int, kind: int) -> bool:
        """Say whether the shape in a slot asks anything of a kind."""
        return any(ask.kind == kind for ask in self.list_of(slot).asks)

    def prefers_anybody(self, slot: int) -> bool:
        """Say whether any guest that the shape in a slot wants near or far is placed."""
        counters = self._cluster.counters
        asks = zip(self.list_of(slot).asks, self._counters.get(slot, ()), strict=True)
        return any(ask.kind == ASK_PREFER and counters.total(number) for ask, number in asks)

    def clear(self, slot: int) -> None:
        """Give back what a slot holds."""
        for number in self._counters.pop(slot, ()):
            self._cluster.counters.release(number)
        self._lists.pop(slot, None)
        self._stamps.pop(slot, None)
        if slot < len(self._asks):
            self._asks[slot] = 0
            self._shifts[slot] = 0

    def clear_all(self) -> None:
        """Give back everything."""
        for slot in list(self._stamps):
            self.clear(slot)

    def columns(self) -> AskColumns:
        """Return the arrays for a kernel."""
        width = self._cluster.counters.domains.width
        if len(self._seen) < width:
            self._seen = np.zeros(width, dtype=np.int64)
        return AskColumns(
            self._asks, self._filters, self._kind, self._counter, self._params, self._code, self._code_absent,
            self._first, self._all_keys, self._shifts, self._shift_counter, self._shift_by, self._least,
            self._log_size, self._seen, self._tick,
        )  # fmt: skip

    def _has(self, slot: int, numbers: list[int]) -> bool:
        return slot < len(self._asks) and self._counter[slot, : len(numbers)].tolist() == numbers

    def _grow(self, slots: int, asks: int, shifts: int) -> None:
        """Make the arrays large enough; they never shrink."""
        held = self._sizes
        if slots <= held[0] and asks <= held[1] and shifts <= held[2]:
            return
        needs = (slots, asks, shifts)
        n, j, i = (2 * need if need > have else have for have, need in zip(held, needs, strict=True))
        for name, shape, dtype in (
            ("_asks", (n,), np.int32),
            ("_filters", (n,), np.int32),
            ("_kind", (n, j), np.int8),
            ("_counter", (n, j), np.int32),
            ("_params", (n, j, ASK_PARAMS), np.int64),
            ("_code", (n, j), np.int16),
            ("_code_absent", (n, j), np.int16),
            ("_first", (n,), np.int8),
            ("_all_keys", (n,), np.int8),
            ("_shifts", (n,), np.int32),
            ("_shift_counter", (n, i), np.int32),
            ("_shift_by", (n, i), np.int32),
            ("_least", (j,), np.int64),
            ("_log_size", (j,), np.float64),
        ):
            fresh = np.zeros(shape, dtype=dtype)
            old = getattr(self, name, None)
            if old is not None:
                fresh[tuple(slice(0, size) for size in old.shape)] = old
            setattr(self, name, fresh)
        self._sizes = (n, j, i)

    _asks: Int32s
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
