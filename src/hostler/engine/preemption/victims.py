"""Candidates for eviction on a host, the order in which they are spared, and the cost of a set of victims.

The order is kube-scheduler's: guests are spared by priority, then by age; those whose eviction breaks a disruption
budget are spared first. Hosts are compared by broken budgets, highest priority among the victims, sum of priorities,
number of victims, and the start of the oldest victim of the highest priority (later is better).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hostler.engine.preemption.victim_moves import replacements
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.state import State
from hostler.model import Budget

__all__ = ["Unit", "VictimSet", "budgets_of", "charge_budgets", "refund_budgets", "split_by_budgets", "units_below"]

_OFFSET = 2**31  # makes every priority count as positive, as in kube-scheduler
_NEVER_STARTED = 2**62  # a guest without a start counts as the youngest


class Unit(NamedTuple):
    """Guests that are evicted together or not at all; ``here`` has those on the host in question."""

    priority: int
    size: int
    started: int
    members: tuple[str, ...]
    here: tuple[str, ...]

    @property
    def importance(self) -> tuple[int, int, int, tuple[str, ...]]:
        """Return the sort key by which units are spared, most important first."""
        return (-self.priority, -self.size if self.size > 1 else 0, self.started, self.members)


class VictimSet(NamedTuple):
    """The victims on one host and their cost; fields before ``host`` are compared in order, less is better."""

    violations: int
    highest: int
    weight: int
    size: int
    youth: int
    host: str
    victims: tuple[str, ...]
    moves: tuple[tuple[str, str], ...] = ()  # victims that move instead of ending, with their destinations
    stranded: int = 0  # victims that neither move nor could run on another host now
    ended: int = 0  # victims that do not move

    @property
    def cost(self) -> tuple[int, int, int, int, int, str]:
        """Return the sort key of hosts."""
        return self[:6]


def units_below(state: State, row: int, priority: int, spared: Iterable[str] = ()) -> list[Unit]:
    """Return the units of strictly lower priority on a row, most important first."""
    keep = {*spared, *replacements(state)}
    units: dict[str, Unit] = {}
    for uid in state.cluster.guests_on[row]:
        record = state.guests[uid]
        gang = state.gangs.gang_disrupted_as_one(record.guest.gang)
        if gang is None:
            own = state.gangs.priority_of(record)
            if own < priority and uid not in keep:
                units[uid] = Unit(own, 1, _start(record), (uid,), (uid,))
            continue
        if gang.key in units:
            known = units[gang.key]
            units[gang.key] = known._replace(here=(*known.here, uid))
            continue
        members = state.gangs.placed(gang.key)
        of_gang = state.gangs.priority(gang.key)
        if of_gang < priority and not keep.intersection(members):
            start = min(_start(state.guests[member]) for member in members)
            units[gang.key] = Unit(of_gang, len(members), start, tuple(sorted(members)), (uid,))
    return sorted(units.values(), key=lambda unit: unit.importance)


def _start(record: GuestRecord) -> int:
    return record.guest.started or _NEVER_STARTED


def budgets_of(state: State, uid: str) -> list[Budget]:
    """Return the budgets that a guest's eviction counts against."""
    guest = state.guests[uid].guest
    return [budget for budget in state.budgets.values() if budget.concerns(guest)]


def charge_budgets(state: State, uid: str) -> None:
    """Record that a guest's eviction was ordered; budgets count it until their facts include it."""
    left = _disruptions_left(state)
    state.ordered[uid] = None
    _shift_budgets(state, uid, left, -1)


def refund_budgets(state: State, uid: str) -> None:
    """Record that a guest whose eviction was ordered stays."""
    left = _disruptions_left(state)
    del state.ordered[uid]
    _shift_budgets(state, uid, left, 1)


def _shift_budgets(state: State, uid: str, left: dict[str, int], by: int) -> None:
    """Change what budgets allow; cached dry runs are dropped only if the guests of one host could use it up."""
    budgets = budgets_of(state, uid)
    if not budgets:
        return
    most = int(state.cluster.columns().guests[: state.cluster.rows].max(initial=0))
    is_tight = any(min(left[budget.key], left[budget.key] + by) < most for budget in budgets)
    for budget in budgets:
        left[budget.key] += by
    if is_tight:
        state.budgets_version += 1


def allowed_disruptions(state: State) -> dict[str, int]:
    """Return how many more disruptions each budget allows: its own number, less those it cannot know of yet."""
    return dict(_disruptions_left(state))


def _disruptions_left(state: State) -> dict[str, int]:
    if state.allowed_now is None:
        left = {key: budget.allowed - state.spent.get(key, 0) for key, budget in state.budgets.items()}
        for uid in state.ordered:
            for budget in budgets_of(state, uid):
                left[budget.key] -= 1
        state.allowed_now = left
    return state.allowed_now


def split_by_budgets(state: State, units: Sequence[Unit]) -> tuple[list[Unit], list[Unit]]:
    """Return the units whose eviction would break a budget, and the others; both keep their order."""
    if not state.budgets:
        return [], list(units)
    left = allowed_disruptions(state)
    breaking: list[Unit] = []
    others: list[Unit] = []
    for unit in units:
        breaks = False
        for uid in unit.members:
            for budget in budgets_of(state, uid):
                if uid in state.ordered:
                    continue  # its disruption is counted already
                left[budget.key] -= 1
                breaks = breaks or left[budget.key] < 0
        (breaking if breaks else others).append(unit)
    return breaking, others


def breaks_budget(state: State, victims: Iterable[str]) -> bool:
    """Say whether evicting all these guests would break any budget."""
    left = allowed_disruptions(state)
    for uid in victims:
        for budget in budgets_of(state, uid):
            if uid not in state.ordered:
                left[budget.key] -= 1
                if left[budget.key] < 0:
                    return True
    return False


def victim_set(state: State, host: str, units: Sequence[Unit], violations: int) -> VictimSet:
    """Compute the cost of the units that are not spared."""
    highest = max(unit.priority for unit in units)
    members = [(uid, unit.priority) for unit in units for uid in unit.members]
    oldest = min(unit.started for unit in units if unit.priority == highest)
    return VictimSet(
        violations=violations,
        highest=highest,
        weight=sum(priority + _OFFSET for _, priority in members),
        size=len(members),
        youth=-oldest,
        host=host,
        victims=tuple(uid for uid, _ in members),
    )
