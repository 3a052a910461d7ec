"""The verdict cache: for each (shape, policy), the verdict and score of every host row, kept fresh by the touch log.

A slot costs twelve bytes per row, more for shapes with raw scores (``wide_rows``). The number of slots is bounded by
memory; the least recently used shape loses its slot. This module evaluates column filters and column scorers, for rows
whose marks changed (for plugins that read more than marks: for rows that were touched). The kernels do everything else.

Invariant: no answer depends on whether the cache is warm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.cache.peer_table import PeerFilters, PeerTable
from hostler.engine.cache.reasons import NamedCounts, shape_reason
from hostler.engine.cache.slot_columns import Extent, SlotColumns
from hostler.engine.cache.wide_rows import DEFAULT_BUDGET, CacheBudget, WideRows
from hostler.engine.cluster.cluster import Cluster
from hostler.engine.cluster.shapes import Shape
from hostler.engine.kernels import replay as kernels_replay
from hostler.engine.kernels import run as kernels_run
from hostler.engine.kernels.layout import (
    OP_GUEST_AFFINITY,
    OP_GUEST_SPREAD,
    PEER_EVEN,
    PEER_PREFER,
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
from hostler.engine.policy.profile import BuiltScorer, Profile
from hostler.engine.policy.profiles import Profiles
from hostler.model import GuestSpec, Reason

__all__ = ["GangRights", "RunResult", "VerdictCache"]

_BYTES_PER_ROW = 12  # code, outer code and total
_MAX_SLOTS = 4096


_ACROSS_GUESTS = {OP_GUEST_AFFINITY: PEER_PREFER, OP_GUEST_SPREAD: PEER_EVEN}


def _is_across_guests(scorer: BuiltScorer) -> bool:
    return scorer.kernel is not None and scorer.kernel.operation in _ACROSS_GUESTS


def _by_name(count: tuple[Reason, int]) -> tuple[str, str, str]:
    reason = count[0]
    return reason.plugin, reason.code, reason.subject


class GangRights(NamedTuple):
    """The priority and passes by which a gang's members use room that is held for others."""

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
        self._lent: dict[tuple[int, int], GangRights] = {}  # shape and policy to what their gang lends them
        self._cluster = cluster
        self._profiles = profiles
        self._slot_of: dict[tuple[int, int], int] = {}  # in order of last use
        self._free: list[int] = []
        self._shape_in: list[tuple[Shape, int] | None] = []
        self._marks_seen: list[int] = []
        self._touch_seen: list[int] = []
        self._layout: tuple[int, ...] = ()
        self._peers = PeerTable(cluster)  # private: what it says of a slot counts only after ``_sync``
        self.generation = 0  # changes when a slot may have gone to another shape

    @property
    def slots(self) -> int:
        """Return how many shapes may be cached at once."""
        each = _BYTES_PER_ROW * self._cluster.row_capacity + self._slots.ask_width * len(self._cluster.tables.models)
        return min(_MAX_SLOTS, self._budget.entries(each))

    def trim(self) -> None:
        """Empty the cache if counters and peer rules take more memory than the budget.

        Called between decisions, when no slot is in use. Everything is rebuilt when it is needed, so no decision
        changes.
        """
        if self.peer_bytes > self._budget.pool_bytes:
            self.empty()

    @property
    def peer_bytes(self) -> int:
        """Return the memory of counters and peer rules."""
        return self._peers.size_bytes

    def empty(self) -> None:
        """Free all slots, counters and peer rules."""
        self._peers.release_all()
        self._layout = ()
        self.generation += 1

    def forget(self, shape: int) -> None:
        """Free the slots of a shape whose number will be reused."""
        for key in [key for key in self._slot_of if key[0] == shape]:
            slot = self._slot_of.pop(key)
            self.generation += 1
            self._narrow(slot)
            self._peers.clear(slot)
            self._free.append(slot)
        self._cluster.counters.forget(shape)

    def use_profiles(self, profiles: Profiles) -> None:
        """Empty the cache and use other policies from now on."""
        self._profiles = profiles
        self._layout = ()

    def confine(self, slots: Iterable[int], among: Bools) -> None:
        """Reject all rows except some, until ``set_free``."""
        code = self._cluster.tables.reasons.number(Reason("gang", "outside_the_domain"))
        self._slots.fit_codes(len(self._cluster.tables.reasons))
        outside = np.flatnonzero(~among)
        for slot in slots:
            closed = outside[self._slots.outer_code[slot, outside] == 0]
            self._slots.outer_code[slot, closed] = code
            self._slots.has_outer[slot] = 1
            self._slots.seen[slot] = -1

    def set_free(self, slots: Iterable[int]) -> None:
        """Lift the restriction of ``confine``."""
        for slot in slots:
            self._marks_seen[slot] = -1
            self._slots.seen[slot] = -1

    def refresh_passes(self) -> None:
        """Recompute which shapes may use reserved room."""
        if not self._layout:
            return  # all slots will be rebuilt
        for slot in self._slot_of.values():
            self._write_rights(slot)

    def lend(self, rights: dict[tuple[int, int], GangRights]) -> None:
        """Give some (shape, policy) pairs the rights of their gang, until the next call; an empty mapping ends it."""
        before, self._lent = self._lent, rights
        for key in {**before, **rights}:
            if self._layout and key in self._slot_of:
                self._write_rights(self._slot_of[key])

    def fit_passes(self, width: int) -> None:
        """Make room for so many passes. Must run before a hold uses a new pass: kernels do not check bounds."""
        if width > self._pass_need:
            self._pass_need = 2 * width
            self._slots.fit_passes(self._pass_need)

    def _write_rights(self, slot: int) -> None:
        """Write the priority and passes of a slot: its own, or those that a gang lends it."""
        held = self._shape_in[slot]
        assert held is not None
        spec = held[0].spec
        lent = self._lent.get((held[0].number, held[1]))
        passes = self._passes_of(spec)
        if lent is None:
            self._slots.write_rights(slot, spec.priority, passes)
        else:
            self._slots.write_rights(slot, lent.priority, [*passes, *lent.passes])

    def forget_peers(self) -> None:
        """Discard all peer rules, because a namespace's labels changed which guests a term selects."""
        for slot in self._slot_of.values():
            self._slots.seen[slot] = -1

    def slot(self, shape: Shape, policy: int) -> int:
        """Return the slot of a shape under a policy, with column plugins evaluated."""
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
        """Return the reason behind a code, with the subject that applies to the shape in a slot."""
        return shape_reason(self._cluster.tables.reasons, code, self.shape_in(slot), self._peers.reasons(slot))

    def name_counts(self, slot: int, counts: Iterable[tuple[int, int]]) -> NamedCounts:
        """Return counted codes as reasons, sorted by name: codes depend on the history of the cache."""
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
        """Let the kernel decide a run of guests, up to a rejected one with a stop flag, and book the placements."""
        self._sync(np.unique(slots).tolist())
        result = RunResult(len(slots), devices, self._slots.counts.shape[1])
        result.decided = kernels_run.decide_run(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._cluster.counters.columns(), self._peers.columns(), self._cluster.log(), self._scratch(),
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
        """Let a part of the guests arrive and leave; return how many departures remain in the agenda."""
        self._sync(np.unique(slots).tolist())
        left: int = kernels_replay.replay_run(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._cluster.counters.columns(), self._peers.columns(), self._cluster.log(), self._scratch(),
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
        """Return whether any host takes the shape now, and the reasons of the hosts that do not."""
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
        """Return the devices that the policy would give the shape on a row; fewer if they do not fit."""
        out = np.zeros(max(count, 1), dtype=np.int64)
        taken = kernels_run.choose_row_devices(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._scratch(), slot, row,
            np.uint64(draw), out,
        )  # fmt: skip
        return tuple(int(d) for d in out[:taken]) if taken > 0 else ()

    def verdict(self, slot: int, row: int) -> int:
        """Return the current reason code of one row, 0 if it fits."""
        self._sync([slot])
        code = kernels_run.judge_row(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(),
            self._cluster.counters.columns(), self._peers.columns(), self._scratch(), slot, row,
        )  # fmt: skip
        return int(code)

    def total(self, slot: int, row: int) -> int:
        """Return the total of a feasible row of a fresh slot; floats as bits that sort like them."""
        return int(self._slots.total[slot, row])

    def idle_total(self, shape: Shape, policy: int) -> int:
        """Return the total that scorers without an opinion about a shape add on every host."""
        active = self.active(self.slot(shape, policy))
        idle = self._profiles.profiles[policy].idle_scores
        return sum(score for x, score in idle.items() if not active[x])

    def guest_filters(self, slot: int) -> PeerFilters:
        """Return the peer rules of the shape in a slot that can reject hosts, with their counters."""
        self._sync([slot])
        return self._peers.filters_of(slot)

    def has_peer_filters(self, slot: int) -> bool:
        """Say whether other guests may keep the shape in a slot off a host, by its own terms or by theirs.

        A term of another guest counts once a guest that has it is placed. Terms of waiting guests are ignored: which of
        them are known here depends on what was looked up before.
        """
        found = self.guest_filters(slot)
        total = self._cluster.counters.total
        return any(not rule.is_held or total(n) for rule, n in zip(found.rules, found.counters, strict=True))

    def has_preferred_peers(self, slot: int) -> bool:
        """Say whether a placed guest matches any preference of the shape in a slot."""
        self._sync([slot])
        return self._peers.has_preferred_peers(slot)

    def active(self, slot: int) -> list[bool]:
        """Say which scorers apply to the shape in a slot."""
        self._sync([slot])
        held = self._shape_in[slot]
        assert held is not None
        return [bool(on) for on in self._slots.active[slot, : len(self._profiles.profiles[held[1]].all_scorers)]]

    def prefers(self, slot: int) -> bool:
        """Say whether soft constraints of the shape in a slot come before the policy's own score."""
        held = self._shape_in[slot]
        assert held is not None
        return self._profiles.profiles[held[1]].prefers_first(held[0].spec)

    # -- internals -------------------------------------------------------------------------------------------------

    def _sync(self, slots: Iterable[int]) -> None:
        """Update the peer rules of these slots; a shape that is new may bring rules for the others."""
        stale = True
        while stale:
            stale = False
            for slot in slots:
                if self._peers.is_stale(slot):
                    self._write_peers(slot)
                    stale = True
        self._slots.fit_codes(len(self._cluster.tables.reasons))

    def _write_peers(self, slot: int) -> None:
        held = self._shape_in[slot]
        assert held is not None
        shape, policy = held
        profile = self._profiles.profiles[policy]
        if not self._peers.write(slot, shape, profile.peer_options_of(shape.spec)):
            return
        self._slots.seen[slot] = -1
        if self._peers.rules_of(slot).rules:
            self._widen(slot)
        for x, scorer in enumerate(profile.all_scorers):
            kind = _ACROSS_GUESTS.get(scorer.kernel.operation) if scorer.kernel is not None else None
            if kind is not None:
                self._slots.active[slot, x] = self._peers.has_rule_of(slot, kind)

    def _refresh(self, slots: Sequence[int]) -> None:
        self._sync(slots)
        kernels_run.refresh_slots(
            self._cluster.columns(), self._shape_columns(), self._profiles.columns(), self._cache_columns(),
            self._cluster.counters.columns(), self._peers.columns(), self._cluster.log(), self._scratch(),
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
        self._peers.clear_all()
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
        """Return a free slot, or that of the least recently used shape."""
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
        self._peers.clear(self._slot_of[oldest])
        return self._slot_of.pop(oldest)

    def _fill(self, slot: int, shape: Shape, policy: int) -> None:
        """Give a slot to a shape; its rows are not judged yet."""
        self._shape_in[slot] = (shape, policy)
        self._slots.write(slot, shape, policy)
        self._write_rights(slot)
        profile = self._profiles.profiles[policy]
        # Kernels look at the policy's own scorers alone, unless the shape has soft constraints that come first.
        self._slots.scorers[slot] = len(profile.all_scorers if profile.prefers_first(shape.spec) else profile.scorers)
        self._narrow(slot)
        self._marks_seen[slot] = -1
        self._touch_seen[slot] = -1

    def _widen(self, slot: int) -> None:
        """Give a slot room for raw scores, if necessary by taking it from the least recently used shape."""
        while self._slots.wide[slot] < 0:
            entry = self._rows.claim()
            if entry >= 0:
                self._slots.wide[slot] = entry
                return
            key = next(key for key, other in self._slot_of.items() if self._slots.wide[other] >= 0)
            self._narrow(self._slot_of[key])
            self.generation += 1
            self._peers.clear(self._slot_of[key])
            self._free.append(self._slot_of.pop(key))

    def _narrow(self, slot: int) -> None:
        """Release a slot's room for raw scores."""
        if self._slots.wide[slot] >= 0:
            self._rows.release(int(self._slots.wide[slot]))
            self._slots.wide[slot] = -1

    def _refresh_outer(self, slot: int, shape: Shape, profile: Profile) -> None:
        """Evaluate column filters and scorers on the rows that changed since the slot was last fresh."""
        cluster = self._cluster
        marks_end, touch_end = cluster.marks.log_end, cluster.log_end
        if self._marks_seen[slot] == marks_end and (profile.is_static or self._touch_seen[slot] == touch_end):
            return
        first = self._marks_seen[slot] < 0
        rows = None if first else cluster.marks.rows_changed_since(self._marks_seen[slot])
        if not profile.is_static and rows is not None:
            rows = cluster.rows_touched_since(self._touch_seen[slot])
        if rows is None:
            rows = np.arange(cluster.rows)
            self._slots.seen[slot] = -1
        active = [
            bool(self._slots.active[slot, x]) if _is_across_guests(scorer) else scorer.applies(shape.spec)
            for x, scorer in enumerate(profile.all_scorers)
        ]
        if active != [bool(a) for a in self._slots.active[slot, : len(active)]]:
            self._slots.active[slot, : len(active)] = active
            self._slots.seen[slot] = -1
            rows = np.arange(cluster.rows)
            if any(on and scorer.needs_room for on, scorer in zip(active, profile.all_scorers, strict=True)):
                self._widen(slot)
        elif any(
            on and getattr(scorer.column, "looks_at_all_hosts", False)
            for on, scorer in zip(active, profile.all_scorers, strict=True)
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
        for x, scorer in enumerate(profile.all_scorers):
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
