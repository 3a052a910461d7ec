"""Preemption planning: on which host guests of lower priority make room, and which of them.

A dry run removes every lower unit from a host, checks that the guest then fits, and puts the units back one by one, the
most important first, as long as it still fits. The result depends on the host alone, and for guests with peer rules on
the counts that ``peer_counts`` reads. It is cached until one of them changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.shapes import Shape
from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.profile import Profile
from hostler.engine.policy.profiles import Profiles
from hostler.engine.policy.registry import REASONS
from hostler.engine.preemption.peer_counts import NO_PEERS, PeerCounts
from hostler.engine.preemption.victims import (
    Unit,
    VictimSet,
    breaks_budget,
    split_by_budgets,
    units_below,
    victim_set,
)
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction
from hostler.model import PreemptionRules, Reason

__all__ = ["Planner", "dry_run", "is_resolvable"]

_MAX_CANDIDATES = 16  # of whom sets of three are tried
_MAX_KEPT = 64  # (shape, policy) pairs whose dry runs are kept
_FEW = 100  # candidates after which the search in a large fleet ends if results cannot be cached


def is_resolvable(reason: Reason) -> bool:
    """Say whether an eviction may cure a rejection; for plugins of third parties this is unknown."""
    kind = REASONS.get((reason.plugin, reason.code))
    return kind is not None and kind.is_resolvable


class _DryRuns(NamedTuple):
    """Dry runs of one shape: what they were made from, and the candidates by row."""

    shape: Shape
    profiles: Profiles
    position: int  # in the touch log
    budgets: int  # the version of budgets
    peers: PeerCounts
    found: dict[int, VictimSet]
    cheapest: list[tuple[tuple[int, int, int, int, int, str], int]]  # a heap of costs and rows, some of them outdated

    def add(self, row: int, victims: VictimSet) -> None:
        """Store the victims of a row."""
        self.found[row] = victims
        heappush(self.cheapest, (victims.cost, row))

    def best(self, skip: frozenset[str]) -> VictimSet | None:
        """Return the cheapest victims, except on the hosts to skip."""
        aside = []
        best = None
        while self.cheapest and best is None:
            cost, row = self.cheapest[0]
            victims = self.found.get(row)
            if victims is None or victims.cost != cost:
                heappop(self.cheapest)
            elif victims.host in skip:
                aside.append(heappop(self.cheapest))
            else:
                best = victims
        for item in aside:
            heappush(self.cheapest, item)
        return best


class Planner:
    """Finds the cheapest victims for a guest."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[tuple[int, int], _DryRuns] = {}

    def plan(self, shape: Shape, policy: int, skip: frozenset[str]) -> VictimSet | None:
        """Return the cheapest victims over all hosts except those to skip, or None if no eviction helps."""
        state = self._state
        profile = state.profiles.profiles[policy]
        rules = profile.policy.preemption
        if rules is None:
            return None
        kept = self._kept.get((shape.number, policy))
        if kept is not None and not kept.found and self._is_fresh(kept, shape):
            return None
        slot = state.cache.slot(shape, policy)
        codes, _ = state.cache.codes(slot)
        if not state.gangs.units:
            return self._follow(shape, policy, slot, profile, rules, codes.tolist()).best(skip)
        found = self._search(shape, slot, rules, codes.tolist())
        return min((v for v in found if v.host not in skip), key=lambda v: v.cost, default=None)

    def _is_fresh(self, kept: _DryRuns, shape: Shape) -> bool:
        """Say whether nothing changed since the dry runs."""
        state = self._state
        same = kept.shape is shape and kept.profiles is state.profiles and not state.gangs.units
        return (
            same
            and kept.peers is NO_PEERS
            and (kept.budgets, kept.position) == (state.budgets_version, state.cluster.log_end)
        )

    def _rows_changed(self, kept: _DryRuns, shape: Shape, peers: PeerCounts) -> Int64s | None:
        """Return the rows whose dry runs may have another result now; None for all rows."""
        state = self._state
        if kept.shape is not shape or kept.profiles is not state.profiles or kept.budgets != state.budgets_version:
            return None
        touched, recounted = state.cluster.rows_touched_since(kept.position), peers.rows_changed(kept.peers)
        return None if touched is None or recounted is None else np.union1d(touched, recounted)

    def _candidates(self, slot: int, codes: Sequence[int], rows: Iterable[int]) -> Iterator[int]:
        helps: dict[int, bool] = {0: False}  # codes to whether an eviction can help; few rows are looked at
        for row in rows:
            code = codes[row]
            if code not in helps:
                helps[code] = code > 0 and is_resolvable(self._state.cache.reason(slot, code))
            if helps[code]:
                yield row

    def _search(self, shape: Shape, slot: int, rules: PreemptionRules, codes: Sequence[int]) -> list[VictimSet]:
        """Dry-run hosts in order of their rows until there are enough candidates.

        For clusters with gangs that leave as a whole: their members touch other hosts, so nothing is cached.
        """
        enough = max(_FEW, len(codes) // 10)
        found: list[VictimSet] = []
        for row in self._candidates(slot, codes, range(len(codes))):
            victims = dry_run(self._state, shape, slot, row, rules)
            if victims is not None:
                found.append(victims)
            if len(found) >= enough and any(not v.violations for v in found):
                break
        return found

    def _follow(
        self, shape: Shape, policy: int, slot: int, profile: Profile, rules: PreemptionRules, codes: Sequence[int]
    ) -> _DryRuns:
        """Update the cached dry runs: only changed rows are tried again."""
        state = self._state
        key = (shape.number, policy)
        kept = self._kept.pop(key, None)
        has_peers = state.cache.has_peer_filters(slot)
        peers = PeerCounts.read(state, slot) if has_peers else NO_PEERS
        rows = self._rows_changed(kept, shape, peers) if kept is not None else None
        found, cheapest = ({}, []) if kept is None or rows is None else (kept.found, kept.cheapest)
        if rows is None:
            rows = np.arange(len(codes))
        kept = self._kept[key] = _DryRuns(
            shape, state.profiles, state.cluster.log_end, state.budgets_version, peers, found, cheapest
        )
        for row in rows.tolist():
            kept.found.pop(row, None)
        for row in self._candidates(slot, codes, rows.tolist()):
            victims = dry_run(state, shape, slot, row, rules, limit_set=None if has_peers else profile.limit_set)
            if victims is not None:
                kept.add(row, victims)
        while len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept


def dry_run(
    state: State,
    shape: Shape,
    slot: int,
    row: int,
    rules: PreemptionRules,
    limit_set: int | None = None,
    units: Sequence[Unit] | None = None,
) -> VictimSet | None:
    """Return the victims that let a guest onto a row, or None. The state does not change.

    Without ``units``, all guests of lower priority are candidates. With a ``limit_set``, the guest depends on amounts
    alone.
    """
    state.pause()
    if units is None:
        units = units_below(state, row, shape.spec.priority)
    if not units:
        return None
    if limit_set is not None and not shape.asks:
        result = _by_amounts(state, shape, row, limit_set, units)
    else:
        with state.cluster.unlogged(), Transaction(state) as transaction:
            result = _by_verdicts(state, transaction, slot, row, units)
    if result is None:
        return None
    victims, violations = result
    if rules.budgets == "strict" and _breaks(state, victims):
        few = _few_within_budgets(state, shape, slot, row, units)
        if few is None:
            return None
        victims, violations = list(few), 0
    return victim_set(state, state.cluster.host(row).name, victims, violations)


def _breaks(state: State, victims: Iterable[Unit]) -> bool:
    return breaks_budget(state, (uid for unit in victims for uid in unit.members))


def _few_within_budgets(
    state: State, shape: Shape, slot: int, row: int, units: Sequence[Unit]
) -> tuple[Unit, ...] | None:
    """Return the smallest set of at most three units that is enough and breaks no budget, least important first.

    Sparing unit after unit may keep units of a budget that allows only some of them to leave. So small sets are tried
    too.
    """
    candidates = list(reversed(units))[:_MAX_CANDIDATES]
    for size in (1, 2, 3):
        for chosen in combinations(candidates, size):
            if _breaks(state, chosen):
                continue
            with state.cluster.unlogged(), Transaction(state) as transaction:
                for unit in chosen:
                    for uid in unit.members:
                        transaction.unbook(uid)
                if state.cache.verdict(slot, row) == 0:
                    return chosen
    return None


def _by_verdicts(
    state: State, transaction: Transaction, slot: int, row: int, units: Sequence[Unit]
) -> tuple[list[Unit], int] | None:
    """Remove all units, judge the row, and put the units back one by one, on the real columns."""
    for unit in units:
        for uid in unit.members:
            transaction.unbook(uid)
    if state.cache.verdict(slot, row) != 0:
        return None
    breaking, others = split_by_budgets(state, units)
    victims: list[Unit] = []
    violations = 0
    for unit in (*breaking, *others):
        for uid in unit.members:
            transaction.rebook(uid)
        if state.cache.verdict(slot, row) != 0:
            for uid in unit.members:
                transaction.unbook(uid)
            victims.append(unit)
            violations += unit in breaking
    return victims, violations


def _by_amounts(
    state: State, shape: Shape, row: int, limit_set: int, units: Sequence[Unit]
) -> tuple[list[Unit], int] | None:
    """Do the same with amounts alone, for a guest that nothing else concerns."""
    cluster = state.cluster
    passes = state.passes(shape.spec)
    holds = [
        hold
        for _, hold in cluster.holds.on(row)
        if hold.priority >= shape.spec.priority and hold.pass_number not in passes
    ]
    spare = {
        resource: cluster.limit(row, resource, limit_set)
        - cluster.used(row, resource)
        - sum(dict(hold.amounts).get(resource, 0) for hold in holds)
        - amount
        for resource, amount in shape.amounts
    }
    held = {unit: _amounts_here(state, unit, row) for unit in units}
    for unit in units:
        for resource in spare:
            spare[resource] += held[unit].get(resource, 0)
    if min(spare.values()) < 0:
        return None
    breaking, others = split_by_budgets(state, units)
    victims: list[Unit] = []
    violations = 0
    for unit in (*breaking, *others):
        if all(spare[resource] >= held[unit].get(resource, 0) for resource in spare):
            for resource in spare:
                spare[resource] -= held[unit].get(resource, 0)
        else:
            victims.append(unit)
            violations += unit in breaking
    return victims, violations


def _amounts_here(state: State, unit: Unit, row: int) -> dict[int, int]:
    total: dict[int, int] = {}
    for uid in unit.here:
        for resource, amount in state.cluster.guests_on[row][uid].amounts:
            total[resource] = total.get(resource, 0) + amount
    return total
