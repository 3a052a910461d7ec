"""What fronts read of an engine: tables that follow it, cannot be written, and change nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.engine.engine_view import GATHERING
from hostler.errors import UnknownNameError
from hostler.model import (
    Budget,
    BudgetChanged,
    Expression,
    Gang,
    GangChanged,
    Quota,
    QuotasChanged,
    Reservation,
    ReservationChanged,
    Term,
    amounts,
)
from tests.engine.fleet import arrive, engine_with, guest, host, step
from tests.engine.gang_instances import app, preempting, wants


def test_records_follow_the_engine_and_cannot_be_written():
    engine = engine_with([host("a", cpu=1000)], "first_fit")
    records: Any = engine.view.records
    arrive(engine, guest("one"), guest("two"))
    step(engine, 0)
    assert {uid: record.host for uid, record in records.items()} == {"one": "a", "two": ""}
    with pytest.raises(TypeError):
        records["three"] = records["one"]


def test_view_changes_nothing():
    engine = engine_with([host("a", cpu=1000)], "first_fit")
    arrive(engine, guest("one"), guest("two"))
    step(engine, 0)
    before = engine.checkpoint()
    view = engine.view
    list(view.pending_guests())
    view.queue_counts(), view.room_left("a", "cpu"), view.room_left("a", "never heard of"), view.reserved_on("a")
    view.broken_budgets(["one"])
    engine.rank("two", ["a", "b"], drawn_for="two"), engine.would_evict(["two"])
    assert engine.checkpoint() == before


@pytest.mark.parametrize("ask", ["guest", "host", "host_version", "devices_left", "row"])
def test_unknown_name_is_an_error(ask: str):
    with pytest.raises(UnknownNameError, match="nobody"):
        getattr(engine_with().view, ask)("nobody")


def test_pending_guests_say_how_they_wait():
    engine = engine_with([host("a", cpu=1000)], "first_fit")
    engine.apply(GangChanged(gang=Gang(name="crew", min_count=3)))
    arrive(engine, guest("fits"), guest("waits"), wants("member", 100, gang="crew"))
    assert {one.uid: one.state for one in engine.view.pending_guests()} == {
        "fits": "active",
        "waits": "active",
        "member": GATHERING,
    }
    step(engine, 0)
    assert {one.uid: one.state for one in engine.view.pending_guests()} == {"waits": "waiting", "member": GATHERING}
    assert engine.view.queue_counts() == {"active": 0, "backoff": 0, "waiting": 1}
    assert engine.view.gangs.members("default/crew") == ("member",)


def test_room_left_is_what_the_first_policy_may_give():
    engine = engine_with([host("a", cpu=4000, gpus=1)], preempting(), "spread")
    assert engine.view.room_left("a", "cpu") == 4000
    arrive(engine, guest("one", cpu=1500, gpu=(1, 300)))
    step(engine, 0)
    assert engine.view.room_left("a", "cpu") == 2500
    assert engine.view.devices_left("a") == [700]
    assert engine.view.room_left("a", "fpga") == 0


def test_reserved_room_is_reported_by_reservation_and_resource():
    engine = engine_with([host("a", labels={"name": "a"}), host("b")], "first_fit")
    only_a = (Term((Expression("name", "In", ("a",)),)),)
    kept = Reservation(name="team/night", tenant="team", amounts=amounts({"cpu": 3000}), hosts=only_a)
    engine.apply(ReservationChanged(reservation=kept))
    assert engine.view.reserved_on("a") == {"team/night": {"cpu": 3000}}
    assert engine.view.reserved_on("b") == engine.view.reserved_on("nobody") == {}
    assert engine.view.is_in_force("team/night")


def test_quota_use_is_reported_by_tenant():
    engine = engine_with([host("a")], "first_fit")
    engine.apply(QuotasChanged(quotas=(Quota(tenant="team", max=amounts({"cpu": 1500})),)))
    arrive(engine, guest("one", cpu=1000, tenant="team"), guest("two", cpu=1000, tenant="team"))
    step(engine, 0)
    quotas = engine.view.quotas
    assert quotas.used_of("team", "cpu") == 1000
    assert quotas.used_of("team", "memory") == quotas.used_of("nobody", "cpu") == 0
    assert quotas.exceeded(engine.view.guest("two").spec) == ("cpu", True)


def test_last_victims_are_those_that_break_a_budget():
    engine = engine_with([host("a", cpu=3000)], preempting())
    for name in ("one", "two", "three"):
        arrive(engine, wants(name, 1000, app="web"))
    step(engine, 0)
    engine.apply(BudgetChanged(budget=Budget(name="web", selector=app("web"), allowed=1)))
    arrive(engine, wants("urgent", 3000, priority=9))
    victims = [action.uid for action in step(engine, 1) if type(action).__name__ == "Evict"]
    assert len(victims) == 3
    assert engine.view.broken_budgets(victims) == [(victims[2], "default/web"), (victims[1], "default/web")]
    assert engine.view.evicting == dict.fromkeys(victims, "urgent")


def test_ranking_names_feasible_hosts_best_first_and_reasons_of_the_others():
    engine = engine_with([host("a", cpu=2000), host("b", cpu=8000), host("c", cpu=500)], "spread")
    arrive(engine, guest("one", cpu=1000))
    ranking = engine.rank("one", ["a", "b", "c", "nobody"], drawn_for="one")
    assert [name for name, _ in ranking.order] == ["b", "a"]
    assert {name: reason.code for name, reason in ranking.rejected.items()} == {"c": "insufficient"}


def test_devices_are_chosen_only_if_all_are_free():
    engine = engine_with([host("a", gpus=2)], "first_fit")
    arrive(engine, guest("one", gpu=(1, 1000)), guest("two", gpu=(2, 1000)))
    assert engine.choose_devices("two", "a", drawn_for="two") == (0, 1)
    step(engine, 0, 1)
    assert engine.choose_devices("two", "a", drawn_for="two") is None
    assert engine.choose_devices("two", "nobody", drawn_for="two") is None


def test_would_evict_knows_whom_an_eviction_helps():
    engine = engine_with([host("a", cpu=1000)], preempting())
    arrive(engine, wants("low", 1000))
    step(engine, 0)
    arrive(engine, wants("high", 1000, priority=5), wants("same", 1000), wants("large", 9000, priority=5))
    assert engine.would_evict(["high"])
    assert not engine.would_evict(["same", "large"])
