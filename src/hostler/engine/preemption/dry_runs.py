"""Dry runs: which guests of one host would have to leave for another guest. The state does not change.

A dry run removes every lower unit from a host, checks that the guest then fits, and puts the units back one by one, in
the order in which they are given, as long as it still fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from hostler.engine.cluster.shapes import Shape
from hostler.engine.policy.registry import REASONS
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

__all__ = ["dry_run", "is_resolvable"]

_MAX_CANDIDATES = 16  # of whom sets of three are tried


def is_resolvable(reason: Reason) -> bool:
    """Say whether an eviction may cure a rejection; for plugins of third parties this is unknown."""
    kind = REASONS.get((reason.plugin, reason.code))
    return kind is not None and kind.is_resolvable


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
