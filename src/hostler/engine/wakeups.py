"""Which waiting guests are tried again after an event: those it may cure, and those that depend on moved guests.

When hosts improve, one kernel call finds the waiting (shape, policy) pairs whose amounts could now fit on the improved
rows. Those few pairs are checked exactly, and only a pair that fits somewhere is opened in the queue. A pair with peer
rules is checked when a guest that it depends on is placed or leaves, on any host (``WatchIndex``).

Invariant: skipping a pair never hides a fit. What is skipped is only what certainly still fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from hostler.engine.cluster.counters import Counters
from hostler.engine.cluster.shapes import Shape
from hostler.engine.cluster.terms import Counted, Namespaces, PortHolders, ResolvedTerm, multiplicity, resolve
from hostler.engine.gangs.queue import GANG_KEY
from hostler.engine.gangs.room import GangKinds, GangRoom
from hostler.engine.kernels import wake as kernels_wake
from hostler.engine.kernels.layout import Int32s, Int64s
from hostler.engine.plugins.across_guests import GuestAffinity, PortsFilter, SpreadFilter
from hostler.engine.policy.peer_rules import PeerOptions, watched_guests
from hostler.engine.policy.profiles import NO_POLICY
from hostler.engine.preemption.dry_runs import is_resolvable
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.nominations import NOMINATION
from hostler.engine.state.queue import WAITING, WaitKey
from hostler.engine.state.state import State
from hostler.engine.verdicts.verdicts import failures_on
from hostler.errors import PluginError
from hostler.model import GuestSpec, Reason

__all__ = ["WaitIndex", "WatchIndex"]

# Entries of what is derived: guests come and go with ever other terms while the same pairs wait.
_MAX_COUNTS = 100_000
_MAX_MEANT = 10_000
_ABOUT_OTHERS = frozenset({GuestAffinity.name, SpreadFilter.name, PortsFilter.name})
_FEW = 64  # waiting pairs that are all looked at whenever guests move


class WatchIndex:
    """The waiting pairs by the groups of guests that they depend on.

    A placement is checked only for the pairs that it may concern.
    """

    def __init__(self) -> None:
        self._watches: dict[WaitKey, tuple[Counted, ...]] = {}
        self._spec: dict[WaitKey, GuestSpec] = {}
        self._watchers: dict[Counted, dict[WaitKey, None]] = {}
        self._counts: dict[tuple[Counted, int], tuple[Shape, bool]] = {}  # whether a shape is watched; derived
        self._meant: dict[ResolvedTerm, set[WaitKey]] = {}  # the pairs that a term is about; derived
        self._labels_seen = -1  # the labels of namespaces by which it was derived

    def add(self, key: WaitKey, shape: Shape, options: PeerOptions) -> None:
        """Add a pair."""
        self._spec[key] = shape.spec
        self._watches[key] = watched_guests(shape.spec, options)
        for counted in self._watches[key]:
            self._watchers.setdefault(counted, {})[key] = None
        self._meant.clear()

    def remove(self, key: WaitKey) -> None:
        """Remove a pair."""
        self._spec.pop(key, None)
        for counted in self._watches.pop(key, ()):
            keys = self._watchers[counted]
            keys.pop(key, None)
            if not keys:
                del self._watchers[counted]
        self._meant.clear()

    def pairs_concerned(self, moved: Iterable[Shape], counters: Counters) -> set[WaitKey]:
        """Return the pairs that placements or departures of these shapes may concern."""
        is_full = len(self._counts) > _MAX_COUNTS or len(self._meant) > _MAX_MEANT
        if self._labels_seen != counters.labels_version or is_full:
            self._labels_seen = counters.labels_version
            self._counts.clear()
            self._meant.clear()
        namespaces = counters.namespaces
        found: set[WaitKey] = set()
        for shape in moved:
            for counted, keys in self._watchers.items():
                if self._is_counted(counted, shape, namespaces):
                    found.update(keys)
            for term in shape.spec.anti_affinity:
                found.update(self._meant_by(resolve(term, shape.spec.namespace), namespaces))
        return found

    def _is_counted(self, counted: Counted, shape: Shape, namespaces: Namespaces) -> bool:
        known = self._counts.get((counted, shape.number))
        if known is None or known[0] is not shape:
            if isinstance(counted, PortHolders):
                counts = any(port.conflicts(counted.port) for port in shape.spec.ports)
            else:
                counts = multiplicity(counted, shape.spec, namespaces) > 0
            known = self._counts[counted, shape.number] = (shape, counts)
        return known[1]

    def _meant_by(self, term: ResolvedTerm, namespaces: Namespaces) -> set[WaitKey]:
        meant = self._meant.get(term)
        if meant is None:
            meant = self._meant[term] = {k for k, spec in self._spec.items() if term.matches(spec, namespaces)}
        return meant


class WaitIndex:
    """The waiting pairs as columns; derived from the queue, so neither saved nor copied."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._reset()

    def _reset(self) -> None:
        self._profiles = self._state.profiles
        self._watchers = WatchIndex()
        self._gang_kinds = GangKinds(self._state)
        self._barred_by_others: set[WaitKey] = set()
        self._at: dict[WaitKey, int] = {}
        self._shape_of: dict[WaitKey, Shape] = {}  # numbers of shapes are used again
        self._keys: list[WaitKey | None] = []
        self._free: list[int] = []
        self._request: Int64s = np.zeros((16, self._state.cluster.resource_capacity), dtype=np.int64)
        self._limit_set: Int32s = np.zeros(16, dtype=np.int32)

    def wake(self) -> None:
        """Wake what improvements since the last call can cure."""
        state = self._state
        rows, moved, shifted = state.improved_rows, state.moved, state.has_shifted
        if not rows and not moved and not shifted and not state.quota_freed:
            return
        state.gangs.searches.note_improvement()
        state.improved_rows = set()
        state.moved, state.has_shifted = {}, False
        if state.gangs.reserving:
            state.queue.activate_now(GANG + state.gangs.reserving)
        widened, state.widened_rows = state.widened_rows, set()
        is_freed, state.quota_freed = state.quota_freed, False
        if not state.queue.waiting:
            if self._at:
                self._reset()  # what was noted about pairs would miss these changes
            return
        self._wake_gangs(is_freed=is_freed)
        self._follow_queue()
        self._wake_nominated(rows)
        around = self._around(moved, shifted=shifted)
        live = sorted(row for row in rows if state.cluster.host_at[row] is not None)
        may_fit = np.zeros(len(self._keys), dtype=np.bool_)
        columns = state.cluster.columns()
        kernels_wake.may_fit(
            columns.limit, columns.used, self._request, self._limit_set, np.array(live, dtype=np.int64),
            len(self._keys), may_fit,
        )  # fmt: skip
        hits = [self._keys[at] for at in np.flatnonzero(may_fit).tolist()]
        fitting = {key for key in hits if key is not None and key[1] != NO_POLICY and key not in self._barred_by_others}
        limited = self._limited() if is_freed else set()
        for key in sorted(fitting | around | limited):
            if not self._fits_now(key):
                continue
            if self._asks_outside(key):
                state.queue.wake(key, state.now)
            else:
                state.queue.open(key)

        self._wake_preemptors(widened, limited)

    def _wake_preemptors(self, widened: set[int], limited: set[WaitKey]) -> None:
        """Wake guests that fit nowhere but may evict, if a host changed so that this may help, or a quota allows it."""
        state = self._state
        if not widened and not limited:
            return
        rows = np.array(sorted(row for row in widened if state.cluster.host_at[row] is not None), dtype=np.int64)
        for key in sorted(state.queue.waiting):
            if key[1] == NO_POLICY or key in state.queue.opened or not self._may_evict(key):
                continue
            is_allowed = key in limited and not state.quotas.beyond(state.shapes.shapes[key[0]].spec)
            if is_allowed or self._could_make_room(key, rows):
                for uid in state.queue.guests_under(key):
                    if uid not in state.nominations:
                        state.queue.wake_one(uid, state.now)

    def _may_evict(self, key: WaitKey) -> bool:
        policy = self._state.profiles.profiles[key[1]].policy
        may_preempt = self._state.shapes.shapes[key[0]].spec.may_preempt
        return policy.reclaim or (policy.preemption is not None and may_preempt)

    def _could_make_room(self, key: WaitKey, rows: Int64s) -> bool:
        """Say whether some of the rows reject a pair only for reasons that evictions can end."""
        state = self._state
        try:
            slot = state.cache.slot(state.shapes.shapes[key[0]], key[1])
            codes, _ = state.cache.codes(slot)
        except PluginError:
            return True  # the guest is tried, and the error comes up where it belongs
        return bool(state.cache.resolvable(slot, codes[rows].tolist(), is_resolvable))

    def _asks_outside(self, key: WaitKey) -> bool:
        """Say whether an outside scorer decides last. It may reject a guest that fits, so guests are tried singly."""
        return self._state.profiles.profiles[key[1]].policy.ask is not None

    def _wake_gangs(self, *, is_freed: bool) -> None:
        """Wake gangs that may have room; after a part of a quota was freed, all gangs.

        Gangs that may have room are tried at once, or guests of lower priority would get the room first. A large gang
        that is rejected again and again spends the share of its tenant (``search_shares``), which bounds each step.
        """
        state = self._state
        waiting = state.queue.guests_under(GANG_KEY)
        room = GangRoom(state, self._gang_kinds)
        for name in waiting:
            key = name.removeprefix(GANG)
            if room.may_fit(key):
                state.queue.activate_now(name)
            elif is_freed:
                state.queue.wake_one(name, state.now)

    def _wake_nominated(self, rows: set[int]) -> None:
        """Wake guests whose nominated host improved; the hold for them hides it from the test of shapes."""
        state = self._state
        for uid, nomination in list(state.nominations.items()):
            entry = state.queue.entries.get(uid)
            row = state.cluster.row_of.get(nomination.host)
            if entry is not None and entry.state == WAITING and row in rows and self._is_settled(uid, entry.key, row):
                state.queue.activate_now(uid)

    def _is_settled(self, uid: str, key: WaitKey, row: int) -> bool:
        """Say whether waiting for a host is over: it takes the nominated guest, or no eviction helps there."""
        state = self._state
        if key[1] == NO_POLICY:
            return False
        shape, profile = state.shapes.shapes[key[0]], state.profiles.profiles[key[1]]
        try:
            failures = failures_on(state, profile, shape, row, own_hold=NOMINATION + uid)
        except PluginError:
            return True  # the guest is tried, and the error comes up where it belongs
        return not failures or not all(is_resolvable(failure.reason) for failure in failures)

    def _limited(self) -> set[WaitKey]:
        """Return the waiting pairs of tenants with quotas."""
        state = self._state
        keys = [key for key in state.queue.waiting if key[1] != NO_POLICY]
        return {key for key in keys if state.quotas.concerns(state.shapes.shapes[key[0]].spec)}

    def has_news(self) -> bool:
        """Say whether a guest moved that some waiting guest depends on."""
        state = self._state
        if state.quota_freed and state.queue.waiting:
            return True
        if not state.has_shifted and not state.moved:
            return False
        if GANG_KEY in state.queue.waiting or state.gangs.reserving:
            return True
        self._follow_queue()
        return any(self._fits_now(key) for key in sorted(self._around(state.moved, shifted=state.has_shifted)))

    def _around(self, moved: Mapping[int, Shape], *, shifted: bool) -> set[WaitKey]:
        """Return the waiting pairs that moved guests may concern; if few pairs wait, all of them."""
        if shifted:
            self._barred_by_others.clear()
        if not moved and not shifted:
            return set()
        waiting = self._state.queue.waiting
        profiles = self._state.profiles.profiles
        keys = [key for key in waiting if key[1] != NO_POLICY]
        found = set()
        if len(keys) <= _FEW:
            # Whom an answer from outside refused may well fit; another placement is no reason to ask again.
            found = {key for key in keys if profiles[key[1]].policy.ask is None}
        if shifted:
            return found.union(key for key in keys if self._looks_around(key))
        return found | self._watchers.pairs_concerned(moved.values(), self._state.cluster.counters)

    def _looks_around(self, key: WaitKey) -> bool:
        """Say whether a pair has peer rules, or was rejected because of other guests."""
        state = self._state
        spec = state.shapes.shapes[key[0]].spec
        if spec.siblings is not None and state.profiles.profiles[key[1]].peer_options.defaults:
            return True
        if spec.affinity or spec.anti_affinity or spec.spread or spec.ports:
            return True
        record = state.guests[state.queue.first_under(key)]
        return any(reason.plugin == GuestAffinity.name for reason, _ in record.reasons)

    def _fits_now(self, key: WaitKey) -> bool:
        state = self._state
        shape = state.shapes.shapes[key[0]]
        if shape.spec.is_leaving or state.quotas.beyond(shape.spec):
            return False
        try:
            fits, reasons = state.cache.refusals(state.cache.slot(shape, key[1]))
        except PluginError:
            return True  # the guest is tried, and the error comes up where it belongs
        self._note_bars(key, fits=fits, reasons=reasons)
        return fits

    def _note_bars(self, key: WaitKey, *, fits: bool, reasons: Iterable[Reason]) -> None:
        """Remember whether peer rules alone bar a pair from every host.

        Free room does not help such a pair. So it is skipped until a guest moves that it depends on
        (``pairs_concerned``), or something else changes (``has_shifted``). Forgetting this costs time only.
        """
        if not fits and all(reason.plugin in _ABOUT_OTHERS for reason in reasons):
            self._barred_by_others.add(key)
        else:
            self._barred_by_others.discard(key)

    def _follow_queue(self) -> None:
        """Update the columns to the pairs that wait now."""
        state = self._state
        waiting = state.queue.waiting
        if self._profiles is not state.profiles or self._request.shape[1] < state.cluster.resource_capacity:
            self._reset()
        shapes = state.shapes.shapes
        for key in [k for k in self._at if k not in waiting or shapes[k[0]] is not self._shape_of[k]]:
            at = self._at.pop(key)
            del self._shape_of[key]
            self._watchers.remove(key)
            self._barred_by_others.discard(key)
            self._keys[at] = None
            self._request[at] = 0
            self._free.append(at)
        for key in waiting:
            if key not in self._at and key != GANG_KEY:
                self._add(key)

    def _add(self, key: WaitKey) -> None:
        state = self._state
        if not self._free:
            self._free.append(len(self._keys))
            self._keys.append(None)
        at = self._free.pop()
        if at >= len(self._limit_set):
            self._request = np.vstack((self._request, np.zeros_like(self._request)))
            self._limit_set = np.concatenate((self._limit_set, np.zeros_like(self._limit_set)))
        self._at[key] = at
        self._shape_of[key] = state.shapes.shapes[key[0]]
        self._keys[at] = key
        self._request[at] = 0
        for resource, amount in state.shapes.shapes[key[0]].amounts:
            self._request[at, resource] = amount
        if key[1] != NO_POLICY:
            profile = state.profiles.profiles[key[1]]
            self._watchers.add(key, state.shapes.shapes[key[0]], profile.peer_options)
            self._limit_set[at] = profile.limit_set
        else:
            self._limit_set[at] = 0
