"""What is said about guests that wait beyond the engine's reasons: reservations, budgets, helpful evictions."""

from __future__ import annotations

from hostler.model import Budget, DecisionNote, Reservation, Selector, Tenancy, amounts
from hostler.model.notes import HELD_BY_RESERVATION, NO_EVICTION_HELPS, NO_EVICTION_IN_BUDGET, find_note
from hostler.queries import with_preemption
from hostler.queries.waiting_notes import add_notes, would_evict
from tests.queries.small_inputs import EVICTING, SPREAD, STRICT, decided_engine, host, inputs_of, sized

NIGHT = Tenancy(reservations=(Reservation(name="night", amounts=amounts({"cpu": 3000}), tenant="team"),))
NO_DISRUPTION = Tenancy(budgets=(Budget(name="none", selector=Selector()),))


def _noted(inputs, *uids):
    """Return the decisions that got notes; asking leaves the engine as it is."""
    engine = decided_engine(inputs)
    before = engine.checkpoint()
    found = add_notes(engine, {uid: engine.decision(uid) for uid in uids})
    assert engine.checkpoint() == before
    return found


def test_reservation_in_the_way_is_named_with_its_hosts():
    found = _noted(inputs_of(host("a"), host("b"), sized("waits", 3), tenancy=NIGHT), "waits")
    assert found["waits"].notes == (DecisionNote(HELD_BY_RESERVATION, "night", 2),)
    assert found["waits"].note == "reservation night holds room on 2 hosts"


def test_guests_of_one_shape_get_the_same_notes():
    found = _noted(inputs_of(host("a"), sized("one", 3), sized("two", 3), tenancy=NIGHT), "one", "two")
    assert found["one"].notes == found["two"].notes != ()


def test_budget_that_keeps_evictions_off_is_named():
    made = inputs_of(
        host("a"), sized("low", 3, on="a"), sized("high", 3, priority=9), policy=STRICT, tenancy=NO_DISRUPTION
    )
    noted = _noted(made, "high")["high"]
    assert find_note(noted.notes, NO_EVICTION_IN_BUDGET) is not None
    assert find_note(noted.notes, NO_EVICTION_HELPS) is None


def test_decisions_with_nothing_to_add_get_no_notes():
    made = inputs_of(host("a"), sized("placed", tenant="team"), sized("huge", 9))
    assert _noted(made, "placed", "huge") == {}
    assert _noted(inputs_of(host("a"), sized("huge", 9), policy=EVICTING), "huge") == {}
    assert _noted(inputs_of()) == {}


def _would_evict(*members, tenancy=None):
    engine = decided_engine(inputs_of(*members, tenancy=tenancy))
    before = engine.checkpoint()
    answer = would_evict(
        engine, with_preemption([SPREAD], is_on=True), {uid: engine.decision(uid) for uid in engine.guests()}
    )
    assert engine.checkpoint() == before
    return answer


def test_eviction_would_help_only_guests_of_higher_priority():
    low, equal, high = sized("low", 3, on="a"), sized("equal", 3), sized("high", 3, priority=9)
    assert _would_evict(host("a"), low, high)
    assert not _would_evict(host("a"), low, equal)
    assert not _would_evict(host("a"), low, sized("huge", 9, priority=9))
    assert not _would_evict(host("a"), low)
    assert not _would_evict()
