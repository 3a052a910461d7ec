"""The verdict cache: per shape and policy, what every host row says, kept fresh by the touch log.

A slot costs twelve bytes a row, more for shapes with raw scores (``wide_rows``). Slots are bounded by memory; the
least recently used shape gives up its slot. Column filters and scorers are evaluated here for rows whose marks changed
(or, for plugins that look at more, for rows that were touched); everything else happens in the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine import kernels_replay, kernels_run
from hostler.engine.ask_table import AskTable, GuestFilters
from hostler.engine.cluster import Cluster
from hostler.engine.kernels_layout import (
    ASK_EVEN,
    ASK_PREFER,
    OP_GUEST_AFFINITY,
    OP_GUEST_SPREAD,
    Bools,
    CacheColumns,
    Floats,
    Int8s,
    Int32s,
    Int64s,
    Scratch,
    ShapeColumns,
    Uint64s,
    new_scratch,
)
from hostler.engine.profile import BuiltScorer, Profile
from hostler.engine.profiles import Profiles
from hostler.engine.reasons import NamedCounts, shape_reason
from hostler.engine.shapes import Shape
from hostler.engine.slot_columns import Extent, SlotColumns
from hostler.engine.wide_rows import DEFAULT_BUDGET, CacheBudget, WideRows
from hostler.model import GuestSpec, Reason

__all__ = ["Rights", "RunResult", "VerdictCache"]

_BYTES_PER_ROW = 12  # code, outer code and total
_MAX_SLOTS = 4096


_ACROSS_GUESTS = {OP_GUEST_AFFINITY: ASK_PREFER, OP_GUEST_SPREAD: ASK_EVEN}


def _is_across_guests(scorer: BuiltScorer) -> bool:
    return scorer.kernel is not None and scorer.kernel.operation in _ACROSS_GUESTS


def _by_name(count: tuple[Reason, int]) -> tuple[str, str, str]:
    reason = count[0]
    return reason.plugin, reason.code, reason.subject


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
        self,
        cluster: Cluster,
        profiles: Profiles,
        passes: Callable[[GuestSpec], list[int]] = lambda _: [],
        budget: CacheBudget = DEFAULT_BUDGET,
    ) -> None:
        self._passes_of = passes
        self._budget = budget
        self._slots = SlotColumns()
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
        self._asks = AskTable(cluster)  # private: what it says of a slot counts only after ``_sync``
        self.generation = 0  # changes when a slot may have gone to another shape

    @property
    def slots(self) -> int:
        """Return how many shapes may be cached at once."""
        each = _BYTES_PER_ROW * self._cluster.row_capacity + self._slots.ask_width * len(self._cluster.tables.models)
        return min(_MAX_SLOTS, self._budget.entries(each))

    def trim(self) -> None:
        """Empty the cache if counters and what shapes ask of others take more memory than they may.

        Called between decisions, while nobody holds a slot. All of it is made again when it is needed, so nothing
        that is decided depends on it.
        """
        if self.asks_bytes > self._budget.pool_bytes:
            self.empty()

    @property
    def asks_bytes(self) -> int:
        """Return the memory of counters and of what shapes ask about other guests."""
        return self._asks.size_bytes

    def empty(self) -> None:
        """Give everything back."""
        self._asks.release_all()
        self._layout = ()
        self.generation += 1

    def forget(self, shape: int) -> None:
        """Give up the slots of a shape whose number will be used again."""
        for key in [key for key in self._slot_of if key[0] == shape]:
            slot = self._slot_of.pop(key)
            self.generation += 1
            self._narrow(slot)
            self._asks.clear(slot)
            self._free.append(slot)
        self._cluster.counters.forget(shape)

    def use_profiles(self, profiles: Profiles) -> None:
        """Forget everything: other policies decide from now on."""
        self._profiles = profiles
        self._layout = ()

    def confine(self, slots: Iterable[int], among: Bools) -> None:
        """Refuse all rows but some, until ``set_free``."""
        code = self._cluster.tables.reasons.number(Reason("gang", "outside_the_domain"))
        self._slots.fit_codes(len(self._cluster.tables.reasons))
        outside = np.flatnonzero(~among)
        for slot in slots:
            closed = outside[self._slots.outer_code[slot, outside] == 0]
            self._slots.outer_code[slot, closed] = code
            self._slots.has_outer[slot] = 1
            self._slots.seen[slot] = -1

    def set_free(self, slots: Iterable[int]) -> None:
        """Judge all rows of confined slots again."""
        for slot in slots:
            self._marks_seen[slot] = -1
            self._slots.seen[slot] = -1

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
        if width > self._pass_need:
            self._pass_need = 2 * width
            self._slots.fit_passes(self._pass_need)

    def _write_rights(self, slot: int) -> None:
        """Write what a slot may take by its own rights, or by those that a gang lends it."""
        held = self._shape_in[slot]
        assert held is not None
        spec = held[0].spec
        lent = self._lent.get((held[0].number, held[1]))
        passes = self._passes_of(spec)
        if lent is None:
            self._slots.write_rights(slot, spec.priority, passes)
        else:
            self._slots.write_rights(slot, lent.priority, [*passes, *lent.passes])

    def look_again(self) -> None:
        """Forget what shapes were told about other guests: who is meant by a term has changed."""
        for slot in self._slot_of.values():
            self._slots.seen[slot] = -1

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

    def reason(self, slot: int, code: int) -> Reason:
        """Return the reason behind a code, as it concerns the shape in a slot."""
        return shape_reason(self._cluster.tables.reasons, code, self.shape_in(slot), self._asks.reasons(slot))

    def name_counts(self, slot: int, counts: Iterable[tuple[int, int]]) -> NamedCounts:
        """Return the reasons behind counted codes, by name: codes depend on what the cache has seen."""
        reasons = self._cluster.tables.reasons
        values, varying = reasons.values, reasons.varying
        named = [(values[code] if code not in varying else self.reason(slot, code), hosts) for code, hosts in counts]
        if len(named) > 1:
            named.sort(key=_by_name)
        return tuple(named)

    def slot_of(self, shape: int, policy: int) -> int:
        """Return the slot that a shape has under a policy."""
        return self._slot_of[shape, policy]

    def resolvable(self, slot: int, codes: Iterable[int], test: Callable[[Reason], bool]) -> set[int]:
        """Return the codes among some whose reasons pass a test."""
        return {code for code in set(codes) if code > 0 and test(self.reason(slot, code))}

    def distinct_limit(self) -> int:
        """Return how many distinct shapes one run may have."""
        self._fit()
        return min(self.slots, self._rows.most)

    def run(self, slots: Int64s, draws: Uint64s, stops: Int8s, devices: int) -> RunResult:
        """Let the kernel decide a run of guests, up to a refused one that stops it, and book what it places."""
        self._sync(np.unique(slots).tolist())
        result = RunResult(len(slots), devices, self._slots.counts.shape[1])
        result.decided = kernels_run.decide_run(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._cluster.counters.columns(), self._asks.columns(), self._cluster.log(), self._scratch(),
            slots, draws, stops, result.rows, result.totals, result.devices, result.counts,
        )  # fmt: skip
        return result

    def replay(
        self,
        slots: Int64s,
        draws: Uint64s,
        times: tuple[Int64s, Int64s],
        part: tuple[int, int],
        agenda: tuple[Int64s, Int64s],
        size: int,
        out: tuple[Int64s, Int64s, Int64s],
    ) -> int:
        """Let a part of the guests come and go; return how many ends are left in the agenda."""
        self._sync(np.unique(slots).tolist())
        left: int = kernels_replay.replay_run(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._cluster.counters.columns(), self._asks.columns(), self._cluster.log(), self._scratch(),
            slots, draws, *times, *part, *agenda, size, *out,
        )  # fmt: skip
        return left

    def codes(self, slot: int) -> tuple[Int64s, Int32s]:
        """Return the fresh reason code of every row in use, and the hosts counted by code."""
        self._refresh([slot])
        return self._slots.code[slot, : self._cluster.rows].astype(np.int64), self._slots.counts[slot]

    def refresh(self, slots: Sequence[int]) -> None:
        """Bring several slots up to date at once."""
        self._refresh(slots)

    def feasible_rows(self, slot: int) -> Int64s:
        """Return the rows that take the shape of a fresh slot."""
        rows: Int64s = np.flatnonzero(self._slots.code[slot, : self._cluster.rows] == 0).astype(np.int64)
        return rows

    def refusals(self, slot: int) -> tuple[bool, list[Reason]]:
        """Say whether any host takes the shape now, and for which reasons others do not."""
        self._refresh([slot])
        found = np.flatnonzero(self._slots.counts[slot]).tolist()
        return 0 in found, [self.reason(slot, code) for code in found if code]

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
            self._cluster.counters.columns(), self._asks.columns(), self._scratch(), slot, row,
        )  # fmt: skip
        return int(code)

    def total(self, slot: int, row: int) -> int:
        """Return the total of a feasible row of a fresh slot; floats as bits that sort like them."""
        return int(self._slots.total[slot, row])

    def idle_total(self, shape: Shape, policy: int) -> int:
        """Return what scorers that have nothing to say about a shape give to all hosts."""
        active = self.active(self.slot(shape, policy))
        idle = self._profiles.profiles[policy].idle_scores
        return sum(score for x, score in idle.items() if not active[x])

    def guest_filters(self, slot: int) -> GuestFilters:
        """Return what the shape in a slot demands of other guests, with the counters that say it."""
        self._sync([slot])
        return self._asks.filters_of(slot)

    def looks_at_guests(self, slot: int) -> bool:
        """Say whether other guests may keep the shape in a slot from a host: by its own terms, or by theirs.

        A term of others counts once somebody who has it is placed. Which terms of guests that wait are known here
        depends on what was looked at before, so they may not matter.
        """
        found = self.guest_filters(slot)
        total = self._cluster.counters.total
        return any(not ask.is_held or total(n) for ask, n in zip(found.asks, found.counters, strict=True))

    def prefers_anybody(self, slot: int) -> bool:
        """Say whether any guest that the shape in a slot wants near or far is placed."""
        self._sync([slot])
        return self._asks.prefers_anybody(slot)

    def active(self, slot: int) -> list[bool]:
        """Say which scorers have something to say about the shape in a slot."""
        self._sync([slot])
        held = self._shape_in[slot]
        assert held is not None
        return [bool(on) for on in self._slots.active[slot, : len(self._profiles.profiles[held[1]].scorers)]]

    # -- internals -------------------------------------------------------------------------------------------------

    def _sync(self, slots: Iterable[int]) -> None:
        """Bring what the shapes ask about other guests up to date; one that is new may concern the others."""
        stale = True
        while stale:
            stale = False
            for slot in slots:
                if self._asks.is_stale(slot):
                    self._write_asks(slot)
                    stale = True
        self._slots.fit_codes(len(self._cluster.tables.reasons))

    def _write_asks(self, slot: int) -> None:
        held = self._shape_in[slot]
        assert held is not None
        shape, policy = held
        profile = self._profiles.profiles[policy]
        if not self._asks.write(slot, shape, profile.asks):
            return
        self._slots.seen[slot] = -1
        if self._asks.list_of(slot).asks:
            self._widen(slot)
        for x, scorer in enumerate(profile.scorers):
            kind = _ACROSS_GUESTS.get(scorer.kernel.operation) if scorer.kernel is not None else None
            if kind is not None:
                self._slots.active[slot, x] = self._asks.asks_any(slot, kind)

    def _refresh(self, slots: Sequence[int]) -> None:
        self._sync(slots)
        kernels_run.refresh_slots(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._cluster.counters.columns(), self._asks.columns(), self._cluster.log(), self._scratch(),
            np.array(slots, dtype=np.int64),
        )  # fmt: skip

    def _fit(self) -> None:
        """Size the arrays for the cluster and the policies; a change of size empties the cache."""
        self._cluster.fit_layout()
        self._profiles.columns()
        tables = self._cluster.tables
        layout = (self._cluster.layout_version, len(tables.models), self._profiles.width, self._profiles.normal_width)
        if layout == self._layout:
            self._slots.fit_codes(len(tables.reasons))
            return
        self._layout = layout
        self.generation += 1
        self._asks.clear_all()
        self._slot_of.clear()
        self._free = []
        self._shape_in = []
        self._marks_seen = []
        self._touch_seen = []
        self._rows = WideRows(
            self._cluster.row_capacity, self._profiles.width, self._profiles.normal_width, self._budget
        )
        self._allocate(min(8, self.slots))

    def _allocate(self, slots: int) -> None:
        """Make arrays for so many slots; those in use keep their content."""
        cluster = self._cluster
        extent = Extent(
            rows=cluster.row_capacity,
            resources=cluster.resource_capacity,
            models=len(cluster.tables.models),
            scorers=self._profiles.width,
            normalized=self._profiles.normal_width,
            codes=len(cluster.tables.reasons),
        )
        self._slots.allocate(slots, len(self._shape_in), extent)

    def _claim(self) -> int:
        """Return a free slot, taking the least recently used one when all are taken."""
        if self._free:
            return self._free.pop()
        if len(self._shape_in) < self._slots.size:
            self._shape_in.append(None)
            self._marks_seen.append(-1)
            self._touch_seen.append(-1)
            return len(self._shape_in) - 1
        if self._slots.size < self.slots:
            self._allocate(min(self.slots, 2 * self._slots.size))
            return self._claim()
        oldest = next(iter(self._slot_of))
        self.generation += 1
        self._asks.clear(self._slot_of[oldest])
        return self._slot_of.pop(oldest)

    def _fill(self, slot: int, shape: Shape, policy: int) -> None:
        """Give a slot to a shape, unseen."""
        self._shape_in[slot] = (shape, policy)
        self._slots.write(slot, shape, policy)
        self._write_rights(slot)
        self._narrow(slot)
        self._marks_seen[slot] = -1
        self._touch_seen[slot] = -1

    def _widen(self, slot: int) -> None:
        """Give a slot room for raw scores; the least recently used shape that has some gives it up."""
        while self._slots.wide[slot] < 0:
            entry = self._rows.claim()
            if entry >= 0:
                self._slots.wide[slot] = entry
                return
            key = next(key for key, other in self._slot_of.items() if self._slots.wide[other] >= 0)
            self._narrow(self._slot_of[key])
            self.generation += 1
            self._asks.clear(self._slot_of[key])
            self._free.append(self._slot_of.pop(key))

    def _narrow(self, slot: int) -> None:
        """Take a slot's room for raw scores back."""
        if self._slots.wide[slot] >= 0:
            self._rows.release(int(self._slots.wide[slot]))
            self._slots.wide[slot] = -1

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
            self._slots.seen[slot] = -1
        active = [
            bool(self._slots.active[slot, x]) if _is_across_guests(scorer) else scorer.applies(shape.spec)
            for x, scorer in enumerate(profile.scorers)
        ]
        if active != [bool(a) for a in self._slots.active[slot, : len(active)]]:
            self._slots.active[slot, : len(active)] = active
            self._slots.seen[slot] = -1
            rows = np.arange(cluster.rows)
            if any(on and scorer.needs_room for on, scorer in zip(active, profile.scorers, strict=True)):
                self._widen(slot)
        elif any(
            on and getattr(scorer.column, "looks_at_all_hosts", False)
            for on, scorer in zip(active, profile.scorers, strict=True)
        ):
            rows = np.arange(cluster.rows)
            self._slots.seen[slot] = -1
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
        self._slots.outer_code[slot, rows] = codes
        if codes.any():
            self._slots.has_outer[slot] = 1
        for x, scorer in enumerate(profile.scorers):
            if scorer.column is not None and active[x]:
                self._rows.outer[self._slots.wide[slot], x, rows] = scorer.column.evaluate(shape.spec, rows)
        self._slots.fit_codes(len(self._cluster.tables.reasons))

    def _scratch(self) -> Scratch:
        return new_scratch(
            self._cluster.columns().device_left.shape[1], self._profiles.columns().mix.level_milli.shape[0]
        )

    def _shape_columns(self) -> ShapeColumns:
        return self._slots.shape_columns(self._rows)

    def _cache_columns(self) -> CacheColumns:
        return self._slots.cache_columns(self._rows)
