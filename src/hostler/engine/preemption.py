"""Preemption: on which host guests of lower priority make room, and which of them.

A dry run takes every lower unit off a host, checks that the guest then fits, and puts the units back one by one, the
most important first, as long as it still fits. For guests that do not look at others its result depends on the host
alone, so it is kept until the host changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations
from typing import NamedTuple

import numpy as np

from hostler.engine.profile import Profile
from hostler.engine.profiles import Profiles
from hostler.engine.registry import KERNEL_FILTERS
from hostler.engine.shapes import Shape
from hostler.engine.state import State
from hostler.engine.transaction import Transaction
from hostler.engine.victims import (
    Unit,
    VictimSet,
    breaks_a_budget,
    split_by_budgets,
    units_below,
    victim_set,
)
from hostler.model import PreemptionRules, Reason

__all__ = ["UNRESOLVABLE", "Planner", "dry_run", "is_resolvable"]

# Refusals that no eviction can cure (kube-scheduler's UnschedulableAndUnresolvable).
UNRESOLVABLE = frozenset(
    {
        ("cordon", "cordoned"),
        ("host_name", "not_the_named_host"),
        ("host_affinity", "selector_mismatch"),
        ("host_affinity", "affinity_mismatch"),
        ("taints", "untolerated_taint"),
        ("unsupported", "not_supported"),
        ("devices", "no_device"),
        ("devices", "wrong_device_model"),
        ("spread", "no_topology_label"),
        ("guest_affinity", "affinity_unmet"),
    }
)
_MAX_CANDIDATES = 16  # of whom sets of three are tried
_MAX_KEPT = 64  # (shape, policy) pairs whose dry runs are kept
_FEW = 100  # candidates after which guests that look at others stop searching a large fleet


def is_resolvable(reason: Reason) -> bool:
    """Say whether an eviction may cure a refusal; what plugins of third parties think of it is not known."""
    return reason.plugin in KERNEL_FILTERS and (reason.plugin, reason.code) not in UNRESOLVABLE


class _Kept(NamedTuple):
    """Dry runs of one shape: up to where the touch log was read, under which budgets, and the candidates by row."""

    shape: Shape
    profiles: Profiles
    position: int
    budgets: int
    found: dict[int, VictimSet]
    cheapest: list[tuple[tuple[int, int, int, int, int, str], int]]  # a heap of costs and rows, some of them outdated

    def add(self, row: int, victims: VictimSet) -> None:
        """Keep the victims of a row."""
        self.found[row] = victims
        heappush(self.cheapest, (victims.cost, row))

    def best(self, skip: frozenset[str]) -> VictimSet | None:
        """Return the cheapest victims on a host that is not to be skipped."""
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
        self._kept: dict[tuple[int, int], _Kept] = {}

    def plan(self, shape: Shape, policy: int, skip: frozenset[str]) -> VictimSet | None:
        """Return the cheapest victims over all hosts but those to skip, or None where no eviction helps."""
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
        if not state.cache.looks_at_guests(slot) and not state.gangs.units:
            return self._follow(shape, policy, slot, profile, rules, codes.tolist()).best(skip)
        found = self._search(shape, slot, rules, codes.tolist())
        return min((v for v in found if v.host not in skip), key=lambda v: v.cost, default=None)

    def _is_fresh(self, kept: _Kept, shape: Shape) -> bool:
        """Say whether nothing changed since the dry runs were made."""
        state = self._state
        same = kept.shape is shape and kept.profiles is state.profiles and not state.gangs.units
        return same and (kept.budgets, kept.position) == (state.budgets_version, state.cluster.log_end)

    def _candidates(self, slot: int, codes: Sequence[int], rows: Iterator[int]) -> Iterator[int]:
        helps: dict[int, bool] = {0: False}  # codes to whether an eviction can help; few rows are looked at
        for row in rows:
            code = codes[row]
            if code not in helps:
                helps[code] = code > 0 and is_resolvable(self._state.cache.reason(slot, code))
            if helps[code]:
                yield row

    def _search(self, shape: Shape, slot: int, rules: PreemptionRules, codes: Sequence[int]) -> list[VictimSet]:
        """Dry-run hosts in order of their rows until enough candidates are found."""
        enough = max(_FEW, len(codes) // 10)
        found: list[VictimSet] = []
        for row in self._candidates(slot, codes, iter(range(len(codes)))):
            victims = dry_run(self._state, shape, slot, row, rules)
            if victims is not None:
                found.append(victims)
            if len(found) >= enough and any(not v.violations for v in found):
                break
        return found

    def _follow(
        self, shape: Shape, policy: int, slot: int, profile: Profile, rules: PreemptionRules, codes: Sequence[int]
    ) -> _Kept:
        """Bring the kept dry runs up to date: only rows that changed are tried again."""
        state = self._state
        key = (shape.number, policy)
        kept = self._kept.pop(key, None)
        rows = None
        is_known = kept is not None and kept.shape is shape and kept.profiles is state.profiles
        if is_known and kept is not None and kept.budgets == state.budgets_version:
            rows = state.cluster.touched_since(kept.position)
        if kept is None or rows is None:
            kept, rows = _Kept(shape, state.profiles, 0, 0, {}, []), np.arange(len(codes))
        for row in rows.tolist():
            kept.found.pop(row, None)
        for row in self._candidates(slot, codes, iter(rows.tolist())):
            victims = dry_run(state, shape, slot, row, rules, limit_set=profile.limit_set)
            if victims is not None:
                kept.add(row, victims)
        position = state.cluster.log_end
        kept = self._kept[key] = _Kept(
            shape, state.profiles, position, state.budgets_version, kept.found, kept.cheapest
        )
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
    """Return the victims that let a guest onto a row, or None; nothing stays changed.

    Without ``units`` everybody of lower priority is a candidate. With a ``limit_set`` the guest is known to look at
    nothing but amounts.
    """
    state.pause()
    if units is None:
        units = units_below(state, row, shape.spec.priority)
    if not units:
        return None
    if limit_set is not None and not shape.asks:
        result = _by_amounts(state, shape, row, limit_set, units)
    else:
        with Transaction(state) as transaction:
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
    return breaks_a_budget(state, (uid for unit in victims for uid in unit.members))


def _few_within_budgets(
    state: State, shape: Shape, slot: int, row: int, units: Sequence[Unit]
) -> tuple[Unit, ...] | None:
    """Return the smallest set of at most three units that is enough and breaks no budget, least important first.

    Sparing one unit after the other may keep those of which a budget lets only some go, so small sets are tried too.
    """
    candidates = list(reversed(units))[:_MAX_CANDIDATES]
    for size in (1, 2, 3):
        for chosen in combinations(candidates, size):
            if _breaks(state, chosen):
                continue
            with Transaction(state) as transaction:
                for unit in chosen:
                    for uid in unit.members:
                        transaction.unbook(uid)
                if state.cache.verdict(slot, row) == 0:
                    return chosen
    return None


def _by_verdicts(
    state: State, transaction: Transaction, slot: int, row: int, units: Sequence[Unit]
) -> tuple[list[Unit], int] | None:
    """Take everybody off, look, and put them back one by one, on the real books."""
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
    """Do the same with the amounts alone, for a guest that nothing else concerns."""
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
