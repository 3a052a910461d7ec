"""Preemption: on which host guests of lower priority make room, and which of them.

A dry run takes every lower unit off a host, checks that the guest then fits, and puts the units back one by one, the
most important first, as long as it still fits. For guests that do not look at others its result depends on the host
alone, so it is kept until the host changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.profile import Profile
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
from hostler.model import PreemptionRules

__all__ = ["UNRESOLVABLE", "Planner", "dry_run"]

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
_MAX_KEPT = 64  # (shape, policy) pairs whose dry runs are kept
_FEW = 100  # candidates after which guests that look at others stop searching a large fleet


class _Kept(NamedTuple):
    """Dry runs of one shape: up to where the touch log was read, under which budgets, and the candidates by row."""

    shape: Shape
    position: int
    budgets: int
    found: dict[int, VictimSet]


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
        found: Iterable[VictimSet]
        if state.cache.asks.list_of(slot).filters or state.gangs.units:
            found = self._search(shape, slot, rules, codes.tolist())
        else:
            found = self._follow(shape, policy, slot, profile, rules, codes.tolist())
        return min((v for v in found if v.host not in skip), key=lambda v: v.cost, default=None)

    def _is_fresh(self, kept: _Kept, shape: Shape) -> bool:
        """Say whether nothing changed since the dry runs were made."""
        state = self._state
        same = kept.shape is shape and kept.budgets == state.budgets_version and not state.gangs.units
        return same and kept.position == state.cluster.log_end

    def _candidates(self, codes: Sequence[int], rows: Iterator[int]) -> Iterator[int]:
        reasons = self._state.tables.reasons.values
        for row in rows:
            if codes[row] > 0 and (reasons[codes[row]].plugin, reasons[codes[row]].code) not in UNRESOLVABLE:
                yield row

    def _search(self, shape: Shape, slot: int, rules: PreemptionRules, codes: Sequence[int]) -> list[VictimSet]:
        """Dry-run hosts in order of their rows until enough candidates are found."""
        enough = max(_FEW, len(codes) // 10)
        found: list[VictimSet] = []
        for row in self._candidates(codes, iter(range(len(codes)))):
            victims = dry_run(self._state, shape, slot, row, rules)
            if victims is not None:
                found.append(victims)
            if len(found) >= enough and any(not v.violations for v in found):
                break
        return found

    def _follow(
        self, shape: Shape, policy: int, slot: int, profile: Profile, rules: PreemptionRules, codes: Sequence[int]
    ) -> Iterable[VictimSet]:
        """Bring the kept dry runs up to date: only rows that changed are tried again."""
        state = self._state
        key = (shape.number, policy)
        kept = self._kept.pop(key, None)
        rows = None
        if kept is not None and kept.shape is shape and kept.budgets == state.budgets_version:
            rows = state.cluster.touched_since(kept.position)
        if kept is None or rows is None:
            kept, rows = _Kept(shape, 0, 0, {}), np.arange(len(codes))
        for row in rows.tolist():
            kept.found.pop(row, None)
        for row in self._candidates(codes, iter(rows.tolist())):
            victims = dry_run(state, shape, slot, row, rules, limit_set=profile.limit_set)
            if victims is not None:
                kept.found[row] = victims
        position = state.cluster.log_end
        self._kept[key] = _Kept(shape, position, state.budgets_version, kept.found)
        while len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept.found.values()


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
    if rules.budgets == "strict" and breaks_a_budget(state, (uid for unit in victims for uid in unit.members)):
        return None
    return victim_set(state, state.cluster.host(row).name, victims, violations)


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
    holds = [hold for _, hold in cluster.holds.on(row) if hold.priority >= shape.spec.priority]
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
