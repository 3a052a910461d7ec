"""How facts about namespaces, budgets, gangs, quotas and reservations change the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hostler.engine.gangs.queue import GangQueue
from hostler.engine.preemption.evictions import Evictions, refresh_holds
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.queue import WAITING
from hostler.engine.state.records import PLACED_STATES
from hostler.engine.state.reservations import Reservations, is_news
from hostler.engine.state.state import State
from hostler.errors import FactError
from hostler.model import (
    BudgetChanged,
    BudgetLeft,
    Gang,
    GangChanged,
    GangLeft,
    NamespaceChanged,
    QuotasChanged,
    Reservation,
    ReservationChanged,
    ReservationLeft,
)

__all__ = ["TenancyFacts"]


def _check_gang(gang: Gang) -> None:
    if not gang.name or "/" in gang.name or "/" in gang.namespace:
        raise FactError(f"gang {gang.key!r} has no name, or a stroke in it that would make it another gang's")
    if not 1 <= gang.min_count <= 2**31 or not 0 <= gang.max_count <= 2**31:
        raise FactError(f"gang {gang.key!r} has a minimum or maximum that is none")
    if gang.max_count and gang.max_count < gang.min_count:
        raise FactError(f"gang {gang.key!r} has a maximum below its minimum")
    if not -(2**62) <= (gang.priority or 0) < 2**62:
        raise FactError(f"gang {gang.key!r} has priority {gang.priority}, which is not between -2^62 and 2^62")
    if not 0 <= gang.release_after_ns < 2**62:
        raise FactError(f"gang {gang.key!r} is to be released after {gang.release_after_ns} ns, which is no time")
    if not 0 <= (gang.draw_key or 0) < 2**64:
        raise FactError(f"gang {gang.key!r} has a draw key beyond 64 bits")


class TenancyFacts:
    """Applies facts about namespaces, budgets, gangs, quotas and reservations; handlers check before they change."""

    def __init__(self, state: State, evictions: Evictions, gang_queue: GangQueue, reservations: Reservations) -> None:
        self._state = state
        self._evictions = evictions
        self._gang_queue = gang_queue
        self._reservations = reservations
        self.handlers: dict[type, Callable[[Any], None]] = {
            NamespaceChanged: self._namespace_changed,
            BudgetChanged: self._budget_changed,
            BudgetLeft: self._budget_left,
            GangChanged: self._gang_changed,
            GangLeft: self._gang_left,
            QuotasChanged: self._quotas_changed,
            ReservationChanged: lambda e: self._reserve(e.reservation),
            ReservationLeft: self._reservation_left,
        }

    def _budget_changed(self, event: BudgetChanged) -> None:
        state = self._state
        if not is_news(state.budgets.get(event.budget.key), event.budget, f"budget {event.budget.key!r}"):
            return
        state.budgets[event.budget.key] = event.budget
        state.spent.pop(event.budget.key, None)
        self._rules_moved()

    def _budget_left(self, event: BudgetLeft) -> None:
        self._state.spent.pop(event.key, None)
        if self._state.budgets.pop(event.key, None) is not None:
            self._rules_moved()

    def _rules_moved(self) -> None:
        """Let waiting guests be tried again: another budget, quota or reservation may help them."""
        state = self._state
        state.note_budgets_changed()
        for uid, entry in state.queue.in_order():
            if entry.state == WAITING and uid not in state.nominations:
                state.queue.wake_one(uid, state.now)

    def _gang_changed(self, event: GangChanged) -> None:
        state = self._state
        gang = event.gang
        if not is_news(state.gangs.gangs.get(gang.key), gang, f"gang {gang.key!r}"):
            return
        _check_gang(gang)
        state.gangs.put(gang)
        refresh_holds(state, state.gangs.members.get(gang.key, ()))
        self._gang_queue.consider(gang.key)
        self._gang_queue.reschedule_release(gang.key)

    def _gang_left(self, event: GangLeft) -> None:
        self._evictions.drop_nomination(GANG + event.key)
        self._state.gangs.remove(event.key)
        self._gang_queue.consider(event.key)

    def _quotas_changed(self, event: QuotasChanged) -> None:
        state = self._state
        records = (record for record in state.guests.values() if record.state in PLACED_STATES)
        known = state.quotas.quotas
        told = [
            quota if is_news(known.get(quota.tenant), quota, f"the quota of {quota.tenant!r}") else known[quota.tenant]
            for quota in event.quotas
        ]
        state.quotas.set(told, (record.guest.spec for record in records))
        self._rules_moved()

    def _reserve(self, reservation: Reservation) -> None:
        self._state.tables.check_room(reservation.resources)
        self._reservations.put(reservation)
        self._rules_moved()

    def _reservation_left(self, event: ReservationLeft) -> None:
        self._reservations.remove(event.name)
        self._rules_moved()

    def _namespace_changed(self, event: NamespaceChanged) -> None:
        state = self._state
        state.cluster.counters.name_namespace(event.name, event.labels)
        state.cache.forget_peers()
        state.has_shifted = True
        self._rules_moved()
