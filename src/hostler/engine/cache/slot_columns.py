"""The arrays behind the verdict cache: for each slot, the columns of its shape and the verdicts of all host rows."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hostler.engine.cache.wide_rows import WideRows
from hostler.engine.cluster.shapes import Shape
from hostler.engine.kernels.layout import (
    ABSENT,
    BLOCK,
    CacheColumns,
    Int8s,
    Int16s,
    Int32s,
    Int64s,
    ShapeColumns,
)

__all__ = ["Extent", "SlotColumns"]

T = TypeVar("T", bound=np.generic)


class Extent(NamedTuple):
    """The dimensions of the arrays, except the number of slots; a change empties the cache."""

    rows: int
    resources: int
    models: int
    scorers: int
    normalized: int
    codes: int  # reasons that are known


class SlotColumns:
    """Arrays with one entry per slot; they grow by ``allocate`` and by the ``fit`` methods."""

    policy: Int32s
    request: Int64s
    scored: Int64s
    asks: Int32s
    ask_kind: Int16s
    ask_count: Int64s
    ask_milli: Int64s
    ask_model: Int8s
    tag: Int32s
    gpu: Int64s
    has_outer: Int8s
    outer_code: Int16s
    wide: Int32s
    priority: Int64s
    passes: Int8s
    active: Int8s
    scorers: Int32s
    seen: Int64s
    code: Int16s
    total: Int64s
    counts: Int32s
    best: Int32s
    low: Int64s
    high: Int64s
    row_stamp: Int64s
    block_stamp: Int64s
    dirty: Int32s

    def __init__(self) -> None:
        self._ask_width = 1
        self._pass_width = 1
        self.tick: Int64s = np.zeros(1, dtype=np.int64)

    @property
    def ask_width(self) -> int:
        """Return how many device requests a slot has room for."""
        return self._ask_width

    @property
    def size(self) -> int:
        """Return how many slots there are."""
        return len(self.policy)

    def allocate(self, slots: int, keep: int, extent: Extent) -> None:
        """Make arrays for so many slots; the first ``keep`` of them keep their content."""
        blocks = -(-extent.rows // BLOCK)
        if not keep:
            self._ask_width = 1
        codes = self.counts.shape[1] if keep else 2 * extent.codes

        def array(name: str, shape: tuple[int, ...], dtype: type, fill: int = 0) -> None:
            fresh: NDArray[np.generic] = np.full((slots, *shape), fill, dtype=dtype)
            if keep:
                fresh[:keep] = getattr(self, name)[:keep]
            setattr(self, name, fresh)

        array("policy", (), np.int32)
        array("request", (extent.resources,), np.int64)
        array("scored", (2,), np.int64)
        array("asks", (), np.int32)
        array("ask_kind", (self._ask_width,), np.int16)
        array("ask_count", (self._ask_width,), np.int64)
        array("ask_milli", (self._ask_width,), np.int64)
        array("ask_model", (self._ask_width, extent.models), np.int8)
        array("tag", (), np.int32, -1)
        array("gpu", (4,), np.int64)
        array("has_outer", (), np.int8)
        array("outer_code", (extent.rows,), np.int16)
        array("wide", (), np.int32, -1)
        array("priority", (), np.int64)
        array("passes", (self._pass_width,), np.int8)
        array("active", (extent.scorers,), np.int8)
        array("scorers", (), np.int32)
        array("seen", (), np.int64, -1)
        array("code", (extent.rows,), np.int16)
        array("total", (extent.rows,), np.int64)
        array("counts", (codes,), np.int32)
        array("best", (blocks,), np.int32, -1)
        array("low", (extent.normalized,), np.int64)
        array("high", (extent.normalized,), np.int64)
        self.row_stamp = np.zeros(extent.rows, dtype=np.int64)
        self.block_stamp = np.zeros(blocks, dtype=np.int64)
        self.dirty = np.zeros(extent.rows, dtype=np.int32)

    def fit_codes(self, codes: int) -> None:
        """Make room for the counts of so many reasons."""
        if codes > self.counts.shape[1]:
            self.counts = _widen_array(self.counts, 2 * codes)

    def fit_passes(self, width: int) -> None:
        """Make room for so many passes. Before the arrays exist, this sets the width that they will have."""
        if width > self._pass_width:
            self._pass_width = width
            if hasattr(self, "passes"):
                self.passes = _widen_array(self.passes, width)

    def write(self, slot: int, shape: Shape, policy: int) -> None:
        """Write a shape's columns into a slot, without verdicts, rights and room for raw scores."""
        if len(shape.asks) > self._ask_width:
            self._widen_asks(len(shape.asks))
        self.policy[slot] = policy
        self.request[slot] = 0
        for resource, amount in shape.amounts:
            self.request[slot, resource] = amount
        self.scored[slot] = shape.scored
        self.asks[slot] = len(shape.asks)
        for at, ask in enumerate(shape.asks):
            self.ask_kind[slot, at] = ask.kind
            self.ask_count[slot, at] = ask.devices
            self.ask_milli[slot, at] = ask.milli
            self.ask_model[slot, at] = 0
            self.ask_model[slot, at, slice(None) if ask.is_any else list(ask.models)] = 1
        self.tag[slot] = shape.tag
        self.gpu[slot] = shape.gpu
        self.has_outer[slot] = 0
        self.outer_code[slot] = 0
        self.active[slot] = 0
        self.seen[slot] = -1
        self.code[slot] = ABSENT  # rows that come into use later were never counted
        self.low[slot] = 0
        self.high[slot] = 0

    def write_rights(self, slot: int, priority: int, passes: list[int]) -> None:
        """Write the priority and passes by which a slot uses room that is held for others."""
        flags = np.zeros(self._pass_width, dtype=np.int8)
        flags[passes] = 1
        if priority != self.priority[slot] or not np.array_equal(flags, self.passes[slot]):
            self.priority[slot] = priority
            self.passes[slot] = flags
            self.seen[slot] = -1

    def shape_columns(self, wide: WideRows) -> ShapeColumns:
        """Return the shapes' columns for a kernel."""
        return ShapeColumns(
            self.policy, self.request, self.scored, self.asks, self.ask_kind, self.ask_count, self.ask_milli,
            self.ask_model, self.tag, self.gpu, self.has_outer, self.outer_code, wide.outer,
            self.wide, self.active, self.scorers, self.priority, self.passes,
        )  # fmt: skip

    def cache_columns(self, wide: WideRows) -> CacheColumns:
        """Return the verdicts for a kernel."""
        return CacheColumns(
            self.seen, self.code, wide.base, self.total, wide.raw, wide.local, self.counts, self.best, self.low,
            self.high, self.row_stamp, self.block_stamp, self.dirty, self.tick,
        )  # fmt: skip

    def _widen_asks(self, width: int) -> None:
        for name in ("ask_kind", "ask_count", "ask_milli", "ask_model"):
            old = getattr(self, name)
            fresh = np.zeros((old.shape[0], width, *old.shape[2:]), dtype=old.dtype)
            fresh[:, : old.shape[1]] = old
            setattr(self, name, fresh)
        self._ask_width = width


def _widen_array(array: NDArray[T], width: int) -> NDArray[T]:
    wider: NDArray[T] = np.zeros((array.shape[0], width), dtype=array.dtype)
    wider[:, : array.shape[1]] = array
    return wider
