"""Victims that can run elsewhere: they are chosen before others of equal priority, and moved while they run.

An option of the policy (``PreemptionRules.movable_first`` and ``moves``). The dry runs of all hosts come first, by
kube-scheduler's order. Then the cheapest hosts are looked at closer: a guest that can run on another host now is
evicted before one of equal priority that cannot, and the victims on a host get destinations together. Hosts are
compared by broken budgets, highest priority among the victims, victims that could run nowhere else, victims that do not
move, and then as without the option.

The result depends on other hosts, so nothing of it is kept from one decision to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from hostler.engine.cluster.shapes import Shape
from hostler.engine.preemption.destinations import can_move, find_destinations, rows_for
from hostler.engine.preemption.dry_runs import dry_run
from hostler.engine.preemption.victims import Unit, VictimSet, units_below
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction
from hostler.model import PreemptionRules

__all__ = ["choose_movable"]

_HOSTS = 16  # the cheapest ones, which are looked at closer: each costs a verdict of all hosts for each of its shapes
_COMING = "preemptor:"  # stands for the preemptor in a trial; the uid of no guest


def choose_movable(
    state: State, shape: Shape, policy: int, rules: PreemptionRules, found: Sequence[VictimSet]
) -> VictimSet | None:
    """Return the best of the victim sets that dry runs have found, one for each host. The state does not change."""
    if not rules.movable_first and not rules.moves:
        return min(found, key=lambda victims: victims.cost, default=None)
    cheapest = nsmallest(_HOSTS, found, key=lambda victims: victims.cost)
    elsewhere = _Elsewhere(state)
    best: VictimSet | None = None
    for victims in cheapest:
        if best is not None and not best.ended and victims.cost[:2] >= best.cost[:2]:
            break  # no other host can be better than one whose victims all move
        closer = _look_closer(state, shape, policy, rules, victims, elsewhere)
        if closer is not None and (best is None or _cost(closer) < _cost(best)):
            best = closer
    return best or (cheapest[0] if cheapest else None)


def _cost(victims: VictimSet) -> tuple[int, ...] | tuple[object, ...]:
    return (*victims.cost[:2], victims.stranded, victims.ended, *victims.cost[2:])


class _Elsewhere:
    """Says which guests could run on another host now, each by itself; valid while the state does not change."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._rows: dict[int, list[int]] = {}  # shape to the first two rows that take it

    def takes(self, uid: str) -> bool:
        """Say whether another host would take a placed guest now."""
        record = self._state.guests[uid]
        if record.guest.spec.is_pinned:
            return False
        if record.shape not in self._rows:
            self._rows[record.shape] = rows_for(self._state, record)[:2].tolist()
        own = self._state.cluster.row_of.get(record.host)
        return any(row != own for row in self._rows[record.shape])

    def takes_all(self, unit: Unit) -> bool:
        """Say whether other hosts would take the guests of a unit."""
        return all(self.takes(uid) for uid in unit.members)


def _look_closer(
    state: State, shape: Shape, policy: int, rules: PreemptionRules, before: VictimSet, elsewhere: _Elsewhere
) -> VictimSet | None:
    """Choose the victims on a host again, and plan where they go."""
    row = state.cluster.row_of[before.host]
    units = units_below(state, row, shape.spec.priority)
    if rules.movable_first:
        units.sort(key=lambda unit: (-unit.priority, elsewhere.takes_all(unit), *unit.importance))
    slot = state.cache.slot(shape, policy)
    victims = dry_run(state, shape, slot, row, rules, units=units)
    if victims is None:
        return None
    moves = _plan_moves(state, shape, policy, row, victims.victims) if rules.moves else {}
    leaving = {uid for uid in victims.victims if uid in state.evicting or state.guests[uid].guest.spec.is_leaving}
    ended = [uid for uid in victims.victims if uid not in moves and uid not in leaving]
    stranded = sum(1 for uid in ended if not elsewhere.takes(uid))
    return victims._replace(moves=tuple(sorted(moves.items())), stranded=stranded, ended=len(ended))


def _plan_moves(state: State, shape: Shape, policy: int, row: int, victims: Sequence[str]) -> dict[str, str]:
    """Return where victims go while the preemptor is on their host; those that cannot move are left out."""
    movers = [uid for uid in victims if _may_move(state, uid)]
    if not movers:
        return {}
    with Transaction(state) as transaction:
        for uid in victims:
            transaction.unbook(uid)
        slot = state.cache.slot(shape, policy)
        if state.cache.verdict(slot, row) != 0:
            return {}
        devices = state.cache.choose_devices(slot, row, 0, shape.device_count) if shape.asks else ()
        transaction.book(row, shape, devices, _COMING)
        return find_destinations(state, transaction, movers, {row})


def _may_move(state: State, uid: str) -> bool:
    record = state.guests[uid]
    is_whole = state.gangs.gang_disrupted_as_one(record.guest.gang) is None
    return is_whole and uid not in state.evicting and can_move(state, record)
