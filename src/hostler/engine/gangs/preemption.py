"""Preemption for a whole gang: remove all lower units, place the gang, and put back as many units as possible.

Units whose eviction breaks a budget are put back first, then the most important ones, one by one, as long as every
member of the gang still fits where it was placed. A unit is checked only against members that it can displace: those on
its host, and those with peer rules about guests like it (``_Neighbors``).

Putting units back is part of the gang's search. It spends the tenant's share, and pauses after any unit when the share
is spent. The position stores the rank of that unit and the victims so far. The next step puts the same units back at
once. It starts again if the gang was placed elsewhere or a member lost its place meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from hostler.engine.cluster.domains import ROW
from hostler.engine.cluster.shapes import Shape
from hostler.engine.cluster.terms import Counted, multiplicity
from hostler.engine.gangs.trials import PlacedMember, Trial, Trials
from hostler.engine.kernels.layout import PEER_AFFINITY, Int32s
from hostler.engine.preemption.victims import Unit, breaks_budget, split_by_budgets, units_below
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.search_shares import SearchPaused, SearchPosition, SearchShare
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction
from hostler.model import Gang, PreemptionRules

__all__ = ["GangPlan", "plan_for_gang", "units_below_gang"]

# What one unit of the search's work pays for: putting 128 units back, or looking at 16 members again.
_COST_PER_UNIT = 128
_COST_OF_CHECK = 8


class GangPlan(NamedTuple):
    """The members' hosts after the victims have left, and the victims."""

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
    """Return which of the units must leave for the gang, or None if no eviction helps. The state does not change.

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
        victims = _Reprieve(state, removal, trial, units).run(share, position)
        hosts = tuple((item.record.guest.uid, state.cluster.host(item.row).name) for item in trial.placed)
    doomed = tuple(uid for unit in victims for uid in unit.members)
    if rules.budgets == "strict" and breaks_budget(state, doomed):
        return None
    return GangPlan(hosts, doomed)


def units_below_gang(state: State, gang: Gang) -> list[Unit]:
    """Return every unit of lower priority on any host, most important first."""
    # Its own members are spared, and guests that are being evicted already.
    spared = {**state.gangs.members.get(gang.key, {}), **state.evicting}
    priority = state.gangs.priority(gang.key)
    if _lowest_priority(state) >= priority:
        return []
    units: dict[tuple[str, ...], Unit] = {}
    for row in range(state.cluster.rows):
        state.pause()
        for unit in units_below(state, row, priority, spared):
            units[unit.members] = unit
    return sorted(units.values(), key=lambda unit: unit.importance)


def _lowest_priority(state: State) -> int:
    """Return a priority that no guest and no gang is below, from the few shapes and gangs instead of all guests."""
    gangs = [gang.priority for gang in state.gangs.gangs.values() if gang.priority is not None]
    return min([shape.spec.priority for shape in state.shapes.shapes] + gangs, default=0)


class _Reprieve:
    """Puts units back as long as the gang keeps its places."""

    def __init__(self, state: State, removal: Transaction, trial: Trial, units: Sequence[Unit]) -> None:
        self._state = state
        self._removal = removal
        self._placed = trial.placed
        self._neighbors = _Neighbors(state, trial.placed)
        breaking, others = split_by_budgets(state, units)
        self._units = [*breaking, *others]
        self._ranks = [(int(at >= len(breaking)), *unit.importance) for at, unit in enumerate(self._units)]

    def run(self, share: SearchShare, position: SearchPosition) -> list[Unit]:
        """Return the units that must leave. Raises SearchPaused when the share is spent, after at least one unit."""
        places = [item.row for item in self._placed]
        begin, victims = self._resume(position) if position.places == places else (0, [])
        cost = 0
        for at, unit in enumerate(self._units[begin:], start=begin):
            self._state.pause()
            if share.is_spent and at > begin:
                position.places, position.reprieved = places, self._ranks[at - 1]
                position.victims = [uid for victim in victims for uid in victim.members]
                raise SearchPaused
            affected = self._neighbors.of(unit)
            cost += 1 + _COST_OF_CHECK * len(affected)
            share.spend(cost // _COST_PER_UNIT)
            cost %= _COST_PER_UNIT
            self._put_back(unit)
            if not all(_still_fits(self._state, self._placed[number]) for number in affected):
                self._take_off(unit)
                victims.append(unit)
        return victims

    def _resume(self, position: SearchPosition) -> tuple[int, list[Unit]]:
        """Put back what was put back before the pause; return where to continue, and the victims so far."""
        if position.reprieved is None:
            return 0, []
        unfit = self._unfit()
        begin = bisect_right(self._ranks, position.reprieved)
        doomed = set(position.victims)
        victims = [unit for unit in self._units[:begin] if not doomed.isdisjoint(unit.members)]
        spared = [unit for unit in self._units[:begin] if doomed.isdisjoint(unit.members)]
        for unit in spared:
            self._put_back(unit)
        if self._unfit() <= unfit:
            return begin, victims
        for unit in spared:
            self._take_off(unit)
        return 0, []

    def _unfit(self) -> set[int]:
        """Return the members that break one of their own rules where they are: a later member can cause that."""
        return {number for number, item in enumerate(self._placed) if not _still_fits(self._state, item)}

    def _put_back(self, unit: Unit) -> None:
        for uid in unit.members:
            self._removal.rebook(uid)

    def _take_off(self, unit: Unit) -> None:
        for uid in unit.members:
            self._removal.unbook(uid)


class _Neighbors:
    """The members of a placed gang that a returning guest can displace.

    These are the members on its host; those with peer rules about guests like it in its domain; and those with an
    affinity to guests like it on any host. The first of a group may go anywhere, and if the guest returns, the member
    is no longer the first.
    """

    def __init__(self, state: State, placed: Sequence[PlacedMember]) -> None:
        self._state = state
        self._on_row: dict[int, list[int]] = {}
        self._near: dict[Counted, dict[str, dict[int, list[int]]]] = {}  # who is counted, topology, domain, members
        self._anywhere: dict[Counted, list[int]] = {}
        self._columns: dict[str, Int32s] = {}
        self._counting: dict[int, list[Counted]] = {}  # shape to those of the above that count it
        for number, item in enumerate(placed):
            self._on_row.setdefault(item.row, []).append(number)
            slot = state.cache.slot(state.shapes.shapes[item.record.shape], item.policy)
            for rule in state.cache.guest_filters(slot).rules:
                counted, topology = rule.key.counted, rule.key.topology
                if rule.kind == PEER_AFFINITY:
                    self._anywhere.setdefault(counted, []).append(number)
                elif topology != ROW:
                    domains = self._near.setdefault(counted, {}).setdefault(topology, {})
                    domains.setdefault(self._domain(topology, item.row), []).append(number)

    def of(self, unit: Unit) -> list[int]:
        """Return the members that a unit can displace."""
        state = self._state
        found: set[int] = set()
        for uid in unit.members:
            record = state.guests[uid]
            row = state.cluster.row_of.get(record.host)
            if row is None:
                continue
            found.update(self._on_row.get(row, ()))
            for counted in self._counted(state.shape(record)):
                found.update(self._anywhere.get(counted, ()))
                for topology, domains in self._near.get(counted, {}).items():
                    found.update(domains.get(self._domain(topology, row), ()))
        return sorted(found)

    def _counted(self, shape: Shape) -> list[Counted]:
        known = self._counting.get(shape.number)
        if known is None:
            namespaces = self._state.cluster.counters.namespaces
            asked = dict.fromkeys((*self._near, *self._anywhere))
            known = [counted for counted in asked if multiplicity(counted, shape.spec, namespaces)]
            self._counting[shape.number] = known
        return known

    def _domain(self, topology: str, row: int) -> int:
        column = self._columns.get(topology)
        if column is None:
            column = self._columns[topology] = self._state.cluster.marks.column(topology)[0]
        return int(column[row])


def _still_fits(state: State, item: PlacedMember) -> bool:
    """Say whether a member fits on its host next to all guests that are there now."""
    cluster = state.cluster
    shape = state.shapes.shapes[item.record.shape]
    uid = item.record.guest.uid
    cluster.unbook(item.row, shape, item.devices, uid)
    fits = state.cache.verdict(state.cache.slot(shape, item.policy), item.row) == 0
    cluster.book(item.row, shape, item.devices, uid)
    return fits
