"""Preemption for a gang as a whole: everybody below is taken off, the gang is placed, and units are put back.

Units whose eviction breaks a budget are put back first, then the most important ones, one by one, as long as every
member of the gang still fits where it was put.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hostler.engine.gang_trials import Placed, Trial, Trials
from hostler.engine.records import GuestRecord
from hostler.engine.search_shares import SearchPosition, SearchShare
from hostler.engine.state import State
from hostler.engine.transaction import Transaction
from hostler.engine.victims import Unit, breaks_a_budget, split_by_budgets, units_below
from hostler.model import Gang, PreemptionRules

__all__ = ["GangPlan", "plan_for_gang", "units_below_gang"]


class GangPlan(NamedTuple):
    """Where the members go once the victims have left."""

    hosts: tuple[tuple[str, str], ...]  # uid to host
    victims: tuple[str, ...]


def plan_for_gang(
    state: State,
    trials: Trials,
    gang: Gang,
    members: Sequence[GuestRecord],
    need: int,
    rules: PreemptionRules,
    units: Sequence[Unit],
    share: SearchShare,
    position: SearchPosition,
) -> GangPlan | None:
    """Return which of the units have to go for the gang, or None if no eviction helps; nothing stays changed.

    Raises SearchPaused when the share is spent.
    """
    if not units:
        return None
    with Transaction(state) as removal, Transaction(state) as placing:
        for unit in units:
            for uid in unit.members:
                removal.unbook(uid)
        trial = trials.best(gang, members, need, placing, share, position)
        if len(trial.placed) < need:
            return None
        victims = _reprieve(state, removal, trial, units)
        hosts = tuple((item.record.guest.uid, state.cluster.host(item.row).name) for item in trial.placed)
    doomed = tuple(uid for unit in victims for uid in unit.members)
    if rules.budgets == "strict" and breaks_a_budget(state, doomed):
        return None
    return GangPlan(hosts, doomed)


def units_below_gang(state: State, gang: Gang) -> list[Unit]:
    """Return every unit of lower priority on any host, most important first."""
    spared = {**state.gangs.members.get(gang.key, {}), **state.evicting}  # itself, and whoever was told to go already
    priority = state.gangs.priority(gang.key)
    units: dict[tuple[str, ...], Unit] = {}
    for row in range(state.cluster.rows):
        state.pause()
        for unit in units_below(state, row, priority, spared):
            units[unit.members] = unit
    return sorted(units.values(), key=lambda unit: unit.importance)


def _reprieve(state: State, removal: Transaction, trial: Trial, units: Sequence[Unit]) -> list[Unit]:
    """Put units back, as long as the gang keeps its places."""
    on_row: dict[int, list[Placed]] = {}
    for item in trial.placed:
        on_row.setdefault(item.row, []).append(item)
    looks_around = any(_looks_around(state, item) for item in trial.placed)
    breaking, others = split_by_budgets(state, units)
    victims: list[Unit] = []
    for unit in (*breaking, *others):
        state.pause()
        rows = {state.cluster.row_of.get(state.guests[uid].host, -1) for uid in unit.members}
        for uid in unit.members:
            removal.rebook(uid)
        affected = trial.placed if looks_around else [item for row in rows for item in on_row.get(row, ())]
        if not all(_still_fits(state, item) for item in affected):
            for uid in unit.members:
                removal.unbook(uid)
            victims.append(unit)
    return victims


def _looks_around(state: State, item: Placed) -> bool:
    slot = state.cache.slot(state.shapes.shapes[item.record.shape], item.policy)
    return bool(state.cache.guest_filters(slot).asks)


def _still_fits(state: State, item: Placed) -> bool:
    """Say whether a member fits on its host next to everybody who is there now."""
    cluster = state.cluster
    shape = state.shapes.shapes[item.record.shape]
    uid = item.record.guest.uid
    cluster.unbook(item.row, shape, item.devices, uid)
    fits = state.cache.verdict(state.cache.slot(shape, item.policy), item.row) == 0
    cluster.book(item.row, shape, item.devices, uid)
    return fits
