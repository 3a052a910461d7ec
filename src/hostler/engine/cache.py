"""The verdict cache: per shape and policy, what every host row says, kept fresh by the touch log.

A slot costs twelve bytes a row, more for shapes with raw scores (``wide_rows``). Slots are bounded by memory; the
least recently used shape gives up its slot. Column filters and scorers are evaluated here for rows whose marks changed
(or, for plugins that look at more, for rows that were touched); everything else happens in the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hostler.engine import kernels_run
from hostler.engine.ask_table import AskTable
from hostler.engine.cluster import Cluster
from hostler.engine.kernels_layout import (
    ABSENT,
    ASK_EVEN,
    ASK_PREFER,
    BLOCK,
    OP_GUEST_AFFINITY,
    OP_GUEST_SPREAD,
    Bools,
    CacheColumns,
    Floats,
    Int8s,
    Int16s,
    Int32s,
    Int64s,
    Scratch,
    ShapeColumns,
    Uint64s,
    new_scratch,
)
from hostler.engine.profile import BuiltScorer, Profile
from hostler.engine.profiles import Profiles
from hostler.engine.shapes import Shape
from hostler.engine.wide_rows import WideRows
from hostler.model import GuestSpec, Reason

__all__ = ["Rights", "RunResult", "VerdictCache"]

_BUDGET_BYTES = 96 * 2**20
_BYTES_PER_ROW = 12  # code, outer code and total
_MIN_SLOTS = 16
_MAX_SLOTS = 4096


_ACROSS_GUESTS = {OP_GUEST_AFFINITY: ASK_PREFER, OP_GUEST_SPREAD: ASK_EVEN}


def _is_across_guests(scorer: BuiltScorer) -> bool:
    return scorer.kernel is not None and scorer.kernel.operation in _ACROSS_GUESTS


class Rights(NamedTuple):
    """By what a gang's members take room that is held for others."""

    priority: int
    passes: list[int]


class RunResult:
    """What the kernel decided for a run of guests."""

    def __init__(self, guests: int, devices: int, codes: int) -> None:
        self.rows: Int64s = np.full(guests, -1, dtype=np.int64)
        self.totals: Int64s = np.zeros(guests, dtype=np.int64)
        self.devices: Int64s = np.zeros((guests, max(devices, 1)), dtype=np.int64)
        self.counts: Int32s = np.zeros((guests, codes), dtype=np.int32)
        self.decided = guests


class VerdictCache:
    """Slots for (shape, policy) pairs over all host rows."""

    def __init__(
        self, cluster: Cluster, profiles: Profiles, passes: Callable[[GuestSpec], list[int]] = lambda _: []
    ) -> None:
        self._passes_of = passes
        self._pass_need = 1
        self._lent: dict[tuple[int, int], Rights] = {}  # shape and policy to what their gang lends them
        self._cluster = cluster
        self._profiles = profiles
        self._slot_of: dict[tuple[int, int], int] = {}  # in order of last use
        self._free: list[int] = []
        self._shape_in: list[tuple[Shape, int] | None] = []
        self._marks_seen: list[int] = []
        self._touch_seen: list[int] = []
        self._layout: tuple[int, ...] = ()
        self.asks = AskTable(cluster)
        self.generation = 0  # changes when a slot may have gone to another shape
        self.tick = np.zeros(1, dtype=np.int64)

    @property
    def slots(self) -> int:
        """Return how many shapes may be cached at once."""
        rows = self._cluster.row_capacity
        return max(_MIN_SLOTS, min(_MAX_SLOTS, _BUDGET_BYTES // (_BYTES_PER_ROW * rows)))

    def forget(self, shape: int) -> None:
        """Give up the slots of a shape whose number will be used again."""
        for key in [key for key in self._slot_of if key[0] == shape]:
            slot = self._slot_of.pop(key)
            self.generation += 1
            self._narrow(slot)
            self.asks.clear(slot)
            self._free.append(slot)
        self._cluster.counters.forget(shape)

    def use_profiles(self, profiles: Profiles) -> None:
        """Forget everything: other policies decide from now on."""
        self._profiles = profiles
        self._layout = ()

    def confine(self, slots: Iterable[int], among: Bools) -> None:
        """Refuse all rows but some, until ``set_free``."""
        code = self._cluster.tables.reasons.number(Reason("gang", "outside_the_domain"))
        if len(self._cluster.tables.reasons) > self._counts.shape[1]:
            self._fit()
        outside = np.flatnonzero(~among)
        for slot in slots:
            closed = outside[self._outer_code[slot, outside] == 0]
            self._outer_code[slot, closed] = code
            self._has_outer[slot] = 1
            self._seen[slot] = -1

    def set_free(self, slots: Iterable[int]) -> None:
        """Judge all rows of confined slots again."""
        for slot in slots:
            self._marks_seen[slot] = -1
            self._seen[slot] = -1

    def look_at_passes(self) -> None:
        """Find out again who may use what is reserved."""
        if not self._layout:
            return  # everything will be made anew
        for slot in self._slot_of.values():
            self._write_rights(slot)

    def lend(self, rights: dict[tuple[int, int], Rights]) -> None:
        """Let some shapes under some policies take room by the rights of their gang, until lent others or none."""
        before, self._lent = self._lent, rights
        for key in {**before, **rights}:
            if self._layout and key in self._slot_of:
                self._write_rights(self._slot_of[key])

    def fit_passes(self, width: int) -> None:
        """Make room for so many passes, before any hold bears them: kernels do not check."""
        if width <= self._pass_need:
            return
        self._pass_need = 2 * width
        if self._layout:
            wider = np.zeros((len(self._passes), self._pass_need), dtype=np.int8)
            wider[:, : self._pass_width] = self._passes
            self._passes, self._pass_width = wider, self._pass_need

    def _write_rights(self, slot: int) -> None:
        """Write by which priority a slot takes room that is held for others, and which passes it bears."""
        held = self._shape_in[slot]
        assert held is not None
        spec = held[0].spec
        lent = self._lent.get((held[0].number, held[1]))
        flags = np.zeros(self._pass_width, dtype=np.int8)
        flags[self._passes_of(spec)] = 1
        if lent is not None:
            flags[lent.passes] = 1
        priority = spec.priority if lent is None else lent.priority
        if priority != self._priority[slot] or not np.array_equal(flags, self._passes[slot]):
            self._priority[slot] = priority
            self._passes[slot] = flags
            self._seen[slot] = -1

    def look_again(self) -> None:
        """Forget what shapes were told about other guests: who is meant by a term has changed."""
        for slot in self._slot_of.values():
            self._seen[slot] = -1

    def slot(self, shape: Shape, policy: int) -> int:
        """Return the slot of a shape under a policy, fresh as far as column plugins go."""
        self._fit()
        self._cluster.counters.shifts_of(shape)
        key = (shape.number, policy)
        slot = self._slot_of.pop(key, -1)
        if slot < 0:
            slot = self._claim()
            self._fill(slot, shape, policy)
        self._slot_of[key] = slot
        self._refresh_outer(slot, shape, self._profiles.profiles[policy])
        return slot

    def shape_in(self, slot: int) -> Shape:
        """Return the shape that holds a slot."""
        held = self._shape_in[slot]
        assert held is not None
        return held[0]

    def distinct_limit(self) -> int:
        """Return how many distinct shapes one run may have."""
        self._fit()
        return min(self.slots, self._rows.most)

    def run(self, slots: Int64s, draws: Uint64s, stops: Int8s, devices: int) -> RunResult:
        """Let the kernel decide a run of guests, up to a refused one that stops it, and book what it places."""
        self._sync(np.unique(slots).tolist())
        result = RunResult(len(slots), devices, self._counts.shape[1])
        result.decided = kernels_run.decide_run(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._cluster.counters.columns(), self.asks.columns(), self._cluster.log(), self._scratch(),
            slots, draws, stops, result.rows, result.totals, result.devices, result.counts,
        )  # fmt: skip
        return result

    def codes(self, slot: int) -> tuple[Int64s, Int32s]:
        """Return the fresh reason code of every row in use, and the hosts counted by code."""
        self._refresh([slot])
        return self._code[slot, : self._cluster.rows].astype(np.int64), self._counts[slot]

    def refresh(self, slots: Sequence[int]) -> None:
        """Bring several slots up to date at once."""
        self._refresh(slots)

    def feasible_rows(self, slot: int) -> Int64s:
        """Return the rows that take the shape of a fresh slot."""
        rows: Int64s = np.flatnonzero(self._code[slot, : self._cluster.rows] == 0).astype(np.int64)
        return rows

    def refusals(self, slot: int) -> tuple[bool, list[int]]:
        """Say whether any host takes the shape now, and for which reasons others do not."""
        self._refresh([slot])
        found = np.flatnonzero(self._counts[slot]).tolist()
        return 0 in found, [code for code in found if code]

    def raw_scores(self, slot: int, rows: Int64s) -> tuple[Int64s, Floats]:
        """Return every scorer's raw scores on the given rows, as integers and as floats."""
        whole = np.zeros((self._profiles.width, len(rows)), dtype=np.int64)
        real = np.zeros((self._profiles.width, len(rows)), dtype=np.float64)
        kernels_run.raw_scores(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._scratch(), slot, rows, whole, real,
        )  # fmt: skip
        return whole, real

    def choose_devices(self, slot: int, row: int, draw: int, count: int) -> tuple[int, ...]:
        """Return the devices that the policy would give the shape on a row, fewer when they do not fit."""
        out = np.zeros(max(count, 1), dtype=np.int64)
        taken = kernels_run.taken_devices(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._scratch(), slot, row,
            np.uint64(draw), out,
        )  # fmt: skip
        return tuple(int(d) for d in out[:taken]) if taken > 0 else ()

    def verdict(self, slot: int, row: int) -> int:
        """Return the reason code of one row as things are now, 0 when it fits."""
        self._sync([slot])
        code = kernels_run.verdict(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(),
            self._cluster.counters.columns(), self.asks.columns(), self._scratch(), slot, row,
        )  # fmt: skip
        return int(code)

    def total(self, slot: int, row: int) -> int:
        """Return the total of a feasible row of a fresh slot; floats as bits that sort like them."""
        return int(self._total[slot, row])

    def idle_total(self, shape: Shape, policy: int) -> int:
        """Return what scorers that have nothing to say about a shape give to all hosts."""
        slot = self._slot_of.get((shape.number, policy), -1)
        idle = self._profiles.profiles[policy].idle_scores
        return sum(score for x, score in idle.items() if slot < 0 or not self._active[slot, x])

    def active(self, slot: int) -> list[bool]:
        """Say which scorers have something to say about the shape in a slot."""
        held = self._shape_in[slot]
        assert held is not None
        return [bool(on) for on in self._active[slot, : len(self._profiles.profiles[held[1]].scorers)]]

    # -- internals -------------------------------------------------------------------------------------------------

    def _sync(self, slots: Iterable[int]) -> None:
        """Bring what the shapes ask about other guests up to date; one that is new may concern the others."""
        stale = True
        while stale:
            stale = False
            for slot in slots:
                if self.asks.is_stale(slot):
                    self._write_asks(slot)
                    stale = True
        if len(self._cluster.tables.reasons) > self._counts.shape[1]:
            self._fit()

    def _write_asks(self, slot: int) -> None:
        held = self._shape_in[slot]
        assert held is not None
        shape, policy = held
        profile = self._profiles.profiles[policy]
        if not self.asks.write(slot, shape, profile.asks):
            return
        self._seen[slot] = -1
        if self.asks.list_of(slot).asks:
            self._widen(slot)
        for x, scorer in enumerate(profile.scorers):
            kind = _ACROSS_GUESTS.get(scorer.kernel.operation) if scorer.kernel is not None else None
            if kind is not None:
                self._active[slot, x] = self.asks.asks_any(slot, kind)

    def _refresh(self, slots: Sequence[int]) -> None:
        self._sync(slots)
        kernels_run.refresh_slots(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._cluster.counters.columns(), self.asks.columns(), self._cluster.log(), self._scratch(),
            np.array(slots, dtype=np.int64),
        )  # fmt: skip

    def _fit(self) -> None:
        """Size the arrays for the cluster and the policies; a change of size empties the cache."""
        self._cluster.fit_layout()
        self._profiles.columns()
        tables = self._cluster.tables
        layout = (self._cluster.layout_version, len(tables.models), self._profiles.width, self._profiles.normal_width)
        if layout == self._layout:
            if len(tables.reasons) > self._counts.shape[1]:
                counts = np.zeros((self._counts.shape[0], 2 * len(tables.reasons)), dtype=np.int32)
                counts[:, : self._counts.shape[1]] = self._counts
                self._counts = counts
            return
        self._layout = layout
        self.generation += 1
        self.asks.clear_all()
        self._slot_of.clear()
        self._free = []
        self._shape_in = []
        self._marks_seen = []
        self._touch_seen = []
        self._rows = WideRows(self._cluster.row_capacity, self._profiles.width, self._profiles.normal_width)
        self._allocate(min(8, self.slots))

    def _allocate(self, slots: int) -> None:
        """Make arrays for so many slots; those in use keep their content."""
        rows = self._cluster.row_capacity
        resources, models = self._cluster.resource_capacity, len(self._cluster.tables.models)
        width, normal = self._profiles.width, self._profiles.normal_width
        blocks = -(-rows // BLOCK)
        keep = len(self._shape_in)

        def array(name: str, shape: tuple[int, ...], dtype: type, fill: int = 0) -> None:
            fresh: NDArray[np.generic] = np.full((slots, *shape), fill, dtype=dtype)
            if keep:
                fresh[:keep] = getattr(self, name)[:keep]
            setattr(self, name, fresh)

        array("_policy", (), np.int32)
        array("_request", (resources,), np.int64)
        array("_scored", (2,), np.int64)
        array("_asks", (), np.int32)
        if not keep:
            self._ask_width = 1
        array("_ask_kind", (self._ask_width,), np.int16)
        array("_ask_count", (self._ask_width,), np.int64)
        array("_ask_milli", (self._ask_width,), np.int64)
        array("_ask_model", (self._ask_width, models), np.int8)
        array("_tag", (), np.int32, -1)
        array("_gpu", (4,), np.int64)
        array("_has_outer", (), np.int8)
        array("_outer_code", (rows,), np.int16)
        array("_wide", (), np.int32, -1)
        array("_priority", (), np.int64)
        if not keep:
            self._pass_width = self._pass_need
        array("_passes", (self._pass_width,), np.int8)
        array("_active", (width,), np.int8)
        array("_seen", (), np.int64, -1)
        array("_code", (rows,), np.int16)
        array("_total", (rows,), np.int64)
        if not keep:
            self._counts = np.zeros((slots, 2 * len(self._cluster.tables.reasons)), dtype=np.int32)
        else:
            counts = np.zeros((slots, self._counts.shape[1]), dtype=np.int32)
            counts[:keep] = self._counts[:keep]
            self._counts = counts
        array("_best", (blocks,), np.int32, -1)
        array("_low", (normal,), np.int64)
        array("_high", (normal,), np.int64)
        self._row_stamp = np.zeros(rows, dtype=np.int64)
        self._block_stamp = np.zeros(blocks, dtype=np.int64)
        self._dirty: Int32s = np.zeros(rows, dtype=np.int32)

    def _claim(self) -> int:
        """Return a free slot, taking the least recently used one when all are taken."""
        if self._free:
            return self._free.pop()
        if len(self._shape_in) < len(self._policy):
            self._shape_in.append(None)
            self._marks_seen.append(-1)
            self._touch_seen.append(-1)
            return len(self._shape_in) - 1
        if len(self._policy) < self.slots:
            self._allocate(min(self.slots, 2 * len(self._policy)))
            return self._claim()
        oldest = next(iter(self._slot_of))
        self.generation += 1
        self.asks.clear(self._slot_of[oldest])
        return self._slot_of.pop(oldest)

    def _fill(self, slot: int, shape: Shape, policy: int) -> None:
        """Write a shape's columns into a slot, unseen."""
        if len(shape.asks) > self._ask_width:
            self._widen_asks(len(shape.asks))
        self._shape_in[slot] = (shape, policy)
        self._policy[slot] = policy
        self._request[slot] = 0
        for resource, amount in shape.amounts:
            self._request[slot, resource] = amount
        self._scored[slot] = shape.scored
        self._write_rights(slot)
        self._asks[slot] = len(shape.asks)
        for at, ask in enumerate(shape.asks):
            self._ask_kind[slot, at] = ask.kind
            self._ask_count[slot, at] = ask.devices
            self._ask_milli[slot, at] = ask.milli
            self._ask_model[slot, at] = 0
            self._ask_model[slot, at, list(ask.models) if ask.models else slice(None)] = 1
        self._tag[slot] = shape.tag
        self._gpu[slot] = shape.gpu
        self._has_outer[slot] = 0
        self._outer_code[slot] = 0
        self._narrow(slot)
        self._active[slot] = 0
        self._seen[slot] = -1
        self._code[slot] = ABSENT  # rows that come into use later were never counted
        self._low[slot] = 0
        self._high[slot] = 0
        self._marks_seen[slot] = -1
        self._touch_seen[slot] = -1

    def _widen(self, slot: int) -> None:
        """Give a slot room for raw scores; the least recently used shape that has some gives it up."""
        while self._wide[slot] < 0:
            entry = self._rows.claim()
            if entry >= 0:
                self._wide[slot] = entry
                return
            key = next(key for key, other in self._slot_of.items() if self._wide[other] >= 0)
            self._narrow(self._slot_of[key])
            self.generation += 1
            self.asks.clear(self._slot_of[key])
            self._free.append(self._slot_of.pop(key))

    def _narrow(self, slot: int) -> None:
        """Take a slot's room for raw scores back."""
        if self._wide[slot] >= 0:
            self._rows.release(int(self._wide[slot]))
            self._wide[slot] = -1

    def _widen_asks(self, width: int) -> None:
        for name in ("_ask_kind", "_ask_count", "_ask_milli", "_ask_model"):
            old = getattr(self, name)
            fresh = np.zeros((old.shape[0], width, *old.shape[2:]), dtype=old.dtype)
            fresh[:, : old.shape[1]] = old
            setattr(self, name, fresh)
        self._ask_width = width

    def _refresh_outer(self, slot: int, shape: Shape, profile: Profile) -> None:
        """Evaluate column filters and scorers on rows that changed since the slot saw them."""
        cluster = self._cluster
        marks_end, touch_end = cluster.marks.log_end, cluster.log_end
        if self._marks_seen[slot] == marks_end and (profile.is_static or self._touch_seen[slot] == touch_end):
            return
        first = self._marks_seen[slot] < 0
        rows = None if first else cluster.marks.changed_since(self._marks_seen[slot])
        if not profile.is_static and rows is not None:
            rows = cluster.touched_since(self._touch_seen[slot])
        if rows is None:
            rows = np.arange(cluster.rows)
        active = [
            bool(self._active[slot, x]) if _is_across_guests(scorer) else scorer.applies(shape.spec)
            for x, scorer in enumerate(profile.scorers)
        ]
        if active != [bool(a) for a in self._active[slot, : len(active)]]:
            self._active[slot, : len(active)] = active
            self._seen[slot] = -1
            rows = np.arange(cluster.rows)
            if any(on and scorer.needs_room for on, scorer in zip(active, profile.scorers, strict=True)):
                self._widen(slot)
        elif any(
            on and getattr(scorer.column, "looks_at_all_hosts", False)
            for on, scorer in zip(active, profile.scorers, strict=True)
        ):
            rows = np.arange(cluster.rows)
            self._seen[slot] = -1
        rows = rows[cluster.columns().present[rows] != 0]
        if len(rows):
            self._evaluate(slot, shape, profile, rows, active)
        self._marks_seen[slot] = marks_end
        self._touch_seen[slot] = touch_end

    def _evaluate(self, slot: int, shape: Shape, profile: Profile, rows: Int64s, active: list[bool]) -> None:
        codes = np.zeros(len(rows), dtype=np.int16)
        for column_filter in profile.filters:
            verdict = column_filter.evaluate(shape.spec, rows)
            if verdict is not None:
                codes = np.where(codes == 0, verdict, codes)
        self._outer_code[slot, rows] = codes
        if codes.any():
            self._has_outer[slot] = 1
        for x, scorer in enumerate(profile.scorers):
            if scorer.column is not None and active[x]:
                self._rows.outer[self._wide[slot], x, rows] = scorer.column.evaluate(shape.spec, rows)
        if len(self._cluster.tables.reasons) > self._counts.shape[1]:
            self._fit()

    def _scratch(self) -> Scratch:
        return new_scratch(
            self._cluster.columns().device_left.shape[1], self._profiles.columns().mix.level_milli.shape[0]
        )

    def _shape_columns(self) -> ShapeColumns:
        return ShapeColumns(
            self._policy, self._request, self._scored, self._asks, self._ask_kind, self._ask_count, self._ask_milli,
            self._ask_model, self._tag, self._gpu, self._has_outer, self._outer_code, self._rows.outer,
            self._wide, self._active, self._priority, self._passes,
        )  # fmt: skip

    def _cache_columns(self) -> CacheColumns:
        return CacheColumns(
            self._seen, self._code, self._rows.base, self._total, self._rows.raw, self._rows.local, self._counts,
            self._best, self._low, self._high, self._row_stamp, self._block_stamp, self._dirty, self.tick,
        )  # fmt: skip

    _policy: Int32s
    _request: Int64s
    _scored: Int64s
    _asks: Int32s
    _ask_width: int
    _rows: WideRows
    _ask_kind: Int16s
    _ask_count: Int64s
    _ask_milli: Int64s
    _ask_model: Int8s
    _tag: Int32s
    _gpu: Int64s
    _has_outer: Int8s
    _outer_code: Int16s
    _wide: Int32s
    _priority: Int64s
    _passes: Int8s
    _pass_width: int
    _active: Int8s
    _seen: Int64s
    _code: Int16s
    _total: Int64s
    _counts: Int32s
    _best: Int32s
    _low: Int64s
    _high: Int64s
    _row_stamp: Int64s
    _block_stamp: Int64s
