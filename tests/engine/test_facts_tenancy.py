"""Facts about gangs, budgets, quotas and reservations: versions, bounds, and that refused ones leave no trace."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.engine import Engine
from hostler.errors import FactError, HostlerError, InputError
from hostler.model import (
    Budget,
    BudgetChanged,
    Event,
    Gang,
    GangChanged,
    GuestLeft,
    GuestsArrived,
    HostJoined,
    Policy,
    PolicyChanged,
    PreemptionRules,
    QueueRules,
    Quota,
    QuotasChanged,
    Reservation,
    ReservationChanged,
    amounts,
)
from tests.engine.fleet import SECOND, arrive, binds, engine_with, host, spec, step
from tests.engine.gang_instances import app, evicted, form, leave, members, preempting, runs, wants

CPU = amounts({"cpu": 1000})


def gang(**fields: Any) -> Event:
    return GangChanged(gang=Gang(name="team", **fields))


def budget(**fields: Any) -> Event:
    return BudgetChanged(budget=Budget(name="b", selector=app("w"), **fields))


def quota(cores: int, **fields: Any) -> Event:
    return QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 1000 * cores}), **fields),))


def reservation(**fields: Any) -> Event:
    return ReservationChanged(reservation=Reservation(name="r", tenant="t", **{"amounts": CPU, **fields}))


def refused_to_the_byte(engine: Engine, event: Event) -> None:
    before = engine.checkpoint()
    with pytest.raises(HostlerError):
        engine.apply(event)
    assert engine.checkpoint() == before


PAIRS = [
    pytest.param(lambda v, n: gang(version=v, min_count=n), id="gang"),
    pytest.param(lambda v, n: budget(version=v, allowed=n), id="budget"),
    pytest.param(lambda v, n: quota(n, version=v), id="quota"),
    pytest.param(lambda v, n: reservation(version=v, amounts=amounts({"cpu": n})), id="reservation"),
]


@pytest.mark.parametrize("fact", PAIRS)
def test_two_different_facts_of_one_version_contradict_each_other(fact):
    engine = engine_with([host("a")])
    engine.apply(fact(7, 1))
    refused_to_the_byte(engine, fact(7, 2))


@pytest.mark.parametrize("fact", PAIRS)
def test_an_older_fact_changes_nothing(fact):
    engine, twin = engine_with([host("a")]), engine_with([host("a")])
    for each in (engine, twin):
        each.apply(fact(7, 1))
    engine.apply(fact(3, 2))
    assert engine.checkpoint() == twin.checkpoint()


@pytest.mark.parametrize("fact", PAIRS)
def test_without_versions_the_later_fact_counts(fact):
    engine, twin = engine_with([host("a")]), engine_with([host("a")])
    engine.apply(fact(0, 1))
    for each in (engine, twin):
        each.apply(fact(0, 2))
    state, other = engine.state, twin.state
    assert (state.gangs.gangs, state.budgets) == (other.gangs.gangs, other.budgets)
    assert (state.quotas.quotas, state.reservations) == (other.quotas.quotas, other.reservations)


def test_a_strict_budget_is_not_broken_by_hearing_of_it_again():
    engine = engine_with([host(name) for name in "abc"], preempting(budgets="strict"))
    engine.apply(budget(version=3, allowed=1))
    for name in "abc":
        runs(engine, name, wants(f"on-{name}", 4000, labels=(("app", "w"),)))
    gone = []
    for number in range(3):
        arrive(engine, wants(f"high-{number}", 4000, 9))
        for _ in range(2):
            victims = evicted(step(engine, engine.now + 1))
            leave(engine, *victims)
            gone += victims
        engine.apply(budget(version=3, allowed=1))
    assert len(gone) == 1


@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(gang(priority=2**63), id="a priority beyond 64 bits"),
        pytest.param(gang(priority=-(2**63)), id="a priority below 64 bits"),
        pytest.param(gang(release_after_ns=2**64 - 1), id="a release that never comes"),
        pytest.param(gang(release_after_ns=-1), id="a release in the past"),
        pytest.param(GangChanged(gang=Gang(name="b/c", namespace="a")), id="a name that is another gang's key"),
        pytest.param(GangChanged(gang=Gang(name="c", namespace="a/b")), id="a namespace that is another gang's key"),
        pytest.param(reservation(until=2**62), id="an end after all time"),
        pytest.param(reservation(since=2**63), id="a start after all time"),
        pytest.param(reservation(since=-5), id="a start before all time"),
    ],
)
def test_impossible_facts_are_refused_to_the_byte(fact):
    refused_to_the_byte(engine_with([host("a")]), fact)


def test_a_gang_that_waits_for_victims_cannot_get_an_impossible_priority():
    engine = engine_with([host("a")], preempting())
    runs(engine, "a", wants("there", 4000))
    form(engine, "team", 1, version=1)
    arrive(engine, *members("team", 1, 4000, priority=9))
    step(engine, 0)
    refused_to_the_byte(engine, gang(version=2, priority=2**63))


@pytest.mark.parametrize("name", ["wait_ns", "window_ns", "max_evictions", "max_repeats", "max_cascade"])
@pytest.mark.parametrize("value", [-1, 2**64 - 1])
def test_policies_with_impossible_limits_of_preemption_are_refused(name, value):
    engine = engine_with([host("a")])
    policy = Policy(name="p", preemption=PreemptionRules(**{name: value}))
    with pytest.raises(InputError):
        Engine([policy])
    refused_to_the_byte(engine, PolicyChanged(policies=(policy,)))


@pytest.mark.parametrize("value", [None, "x", 1.5, -1, 2**63])
@pytest.mark.parametrize("name", QueueRules.__struct_fields__)
def test_impossible_queue_rules_are_refused(name, value):
    with pytest.raises(FactError):
        Engine([Policy(name="p")], rules=QueueRules(**{name: value}))


def test_the_longest_times_lead_to_no_time_that_a_step_refuses():
    rules = PreemptionRules(wait_ns=2**62 - 1)
    engine = engine_with([host("a")], Policy(name="p", preemption=rules), rules=QueueRules(flush_after_ns=2**60 - 1))
    runs(engine, "a", wants("there", 4000))
    arrive(engine, wants("high", 4000, 9))
    step(engine, 2**61)
    assert Engine.restore(engine.checkpoint()).next_due() == engine.next_due()
    for _ in range(10):
        if (due := engine.next_due()) is not None:
            engine.step(due)


def test_columns_that_are_refused_give_no_quota_back():
    engine = engine_with([host("a", cpu=8000)])
    engine.apply(quota(9))
    asks = spec(1000, tenant="t")
    runs(engine, "a", wants("known", 1000, tenant="t"))
    refused_to_the_byte(engine, GuestsArrived(specs=(asks,), spec_of=(0, 0), names=("new", "known"), hosts=("a", "")))


def test_what_is_reserved_more_than_once_does_not_wrap_around():
    engine = engine_with([host("a")])
    for number in range(5):
        name = f"r{number}"
        huge = Reservation(name=name, amounts=amounts({"cpu": 2**62}), tenant="blue")
        engine.apply(ReservationChanged(reservation=huge))
        arrive(engine, wants(f"red-{number}", 1000, tenant="red"))
        assert binds(step(engine, engine.now + 1)) == {}


@pytest.mark.parametrize(("since", "until"), [(0, 5), (5, 0)], ids=["an end", "a start"])
def test_engine_restored_after_a_reservation_ended_decides_alike(since, until):
    engine = engine_with([host("a", cpu=1000)])
    engine.apply(reservation(since=since * SECOND, until=until * SECOND))
    if until:
        arrive(engine, wants("other", 1000))
    step(engine, 0)
    engine.apply(GuestLeft(uid="nobody", at=6 * SECOND))
    if since:
        arrive(engine, wants("other", 1000))
    twin, fork = Engine.restore(engine.checkpoint()), engine.fork()
    assert engine.explain("other").feasible == twin.explain("other").feasible == fork.explain("other").feasible
    assert engine.step(6 * SECOND) == twin.step(6 * SECOND) == fork.step(6 * SECOND)
    assert (engine.decision("other").host == "a") is bool(until)


def test_to_explain_leaves_not_one_byte_changed():
    engine = engine_with([host("a"), host("b", cordoned=True)], preempting())
    runs(engine, "a", wants("there", 4000))
    arrive(engine, wants("high", 3000, 9, tenant="t"), wants("low", 3000))
    step(engine, 0)
    engine.apply(HostJoined(host=host("c", cpu=10)))
    before = engine.checkpoint()
    for uid in engine.guests():
        engine.explain(uid)
    assert engine.checkpoint() == before


def test_a_gang_that_reserves_comes_to_rest():
    engine = engine_with([host(name) for name in "abc"], preempting())
    form(engine, "old", 2, disruption="all")
    form(engine, "new", 2, priority=50)
    form(engine, "wait", 3, head_of_line="reserve")
    for name in "ab":
        runs(engine, name, *members("old", 1, 4000, first="ab".index(name)))
    arrive(engine, *members("new", 2, 4000), *members("wait", 3, 4000), wants("tiny", 1000))
    for _ in range(20):
        actions = step(engine, engine.now)
        leave(engine, *evicted(actions))
        if not actions:
            break
    assert step(engine, engine.now) == []
    assert (engine.next_due() or 0) > engine.now
