"""Reclaim: a tenant that needs its guaranteed amount takes it back from the tenant that borrowed most.

Borrowers give up guests of the lowest priority first, the youngest first among equals, and whole gangs if the gang says
so. No borrower falls below its own guarantee, and no disruption budget is broken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hostler.engine.cluster.shapes import Shape
from hostler.engine.preemption.dry_runs import dry_run, is_resolvable
from hostler.engine.preemption.victims import Unit, VictimSet, split_by_budgets, units_below
from hostler.engine.state.quotas import Quotas, wants
from hostler.engine.state.state import State
from hostler.model import PreemptionRules, amount_of

__all__ = ["plan_reclaim", "reclaimable_units"]

_ABOVE_ALL = 2**62
_RULES = PreemptionRules(budgets="strict")


def plan_reclaim(state: State, shape: Shape, policy: int, skip: frozenset[str] = frozenset()) -> VictimSet | None:
    """Return the cheapest victims among the guests of one borrower, trying the largest borrower first."""
    quotas = _without_leaving(state)
    own = shape.spec.tenant
    borrowers = sorted((-quotas.excess(t), t) for t in quotas.quotas if t != own and quotas.excess(t) > 0)
    if not borrowers:
        return None
    slot = state.cache.slot(shape, policy)
    codes, _ = state.cache.codes(slot)
    resolvable = state.cache.resolvable(slot, codes.tolist(), is_resolvable)
    rows = [row for row, code in enumerate(codes.tolist()) if code in resolvable]
    for _, tenant in borrowers:
        found = []
        for row in rows:
            if state.cluster.host(row).name in skip:
                continue
            everybody = units_below(state, row, _ABOVE_ALL)
            leaving = [unit for unit in everybody if any(uid in state.evicting for uid in unit.members)]
            units = [
                unit
                for unit in everybody
                if unit not in leaving
                and _belongs(state, unit, tenant)
                and _stays_whole(state, quotas, tenant, unit.members)
            ]
            units = [*units, *leaving] if units else []  # guests that leave anyway are spared last
            victims = dry_run(state, shape, slot, row, _RULES, units=units) if units else None
            if victims is not None and _stays_whole(state, quotas, tenant, victims.victims):
                found.append(victims)
        if found:
            return min(found, key=lambda victims: victims.cost)
    return None


def reclaimable_units(state: State, owners: Collection[str]) -> Iterator[list[Unit]]:
    """Return the units that borrowers can give up: those of the largest borrower, of the two largest, and so on.

    Each borrower gives the units of lowest priority first, the youngest first, as long as it keeps its guarantee.
    """
    quotas = _without_leaving(state)
    borrowers = sorted((-quotas.excess(t), t) for t in quotas.quotas if t not in owners and quotas.excess(t) > 0)
    units: dict[tuple[str, ...], Unit] = {}
    for row in range(state.cluster.rows) if borrowers else ():
        for unit in units_below(state, row, _ABOVE_ALL, state.evicting):
            units[unit.members] = unit
    given: list[Unit] = []
    for _, tenant in borrowers:
        victims: tuple[str, ...] = ()
        for unit in sorted(units.values(), key=lambda unit: unit.importance, reverse=True):
            more = (*victims, *unit.members)
            if _belongs(state, unit, tenant) and _stays_whole(state, quotas, tenant, more):
                victims = more
                given.append(unit)
        _, within_budgets = split_by_budgets(state, sorted(given, key=lambda unit: unit.importance, reverse=True))
        yield list(reversed(within_budgets))


def _belongs(state: State, unit: Unit, tenant: str) -> bool:
    return all(state.guests[uid].guest.spec.tenant == tenant for uid in unit.members)


def _without_leaving(state: State) -> Quotas:
    """Return the quotas as they will be when the guests that are being evicted have left."""
    quotas = state.quotas.copy()
    for uid in state.evicting:
        quotas.shift(state.guests[uid].guest.spec, -1)
    return quotas


def _stays_whole(state: State, quotas: Quotas, tenant: str, victims: tuple[str, ...]) -> bool:
    """Say whether a borrower keeps its guarantee."""
    quota = quotas.quotas[tenant]
    specs = [state.guests[uid].guest.spec for uid in victims if uid not in state.evicting]
    return all(
        quotas.used.get(tenant, {}).get(name, 0) - sum(wants(spec, name) for spec in specs) >= amount
        for name, amount in quota.min
        if amount_of(quota.min, name)
    )
