"""Disruption budgets: broken last (best effort) or never (strict), and counted while evictions are on their way."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.model import Budget, BudgetChanged, BudgetLeft, EvictFailed, GuestLeft, Selector
from tests.engine.fleet import SECOND, arrive, binds, engine_with, host, step
from tests.engine.gang_instances import (
    SimpleFront,
    allowed,
    app,
    evicted,
    form,
    leave,
    members,
    nominated,
    preempting,
    protect,
    runs,
    wants,
)


def full(*hosts: str, **rules) -> Engine:
    return engine_with([host(name) for name in hosts], preempting(**rules))


def decide_arrivals(engine: Engine, *guests) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now)


# -- best effort ------------------------------------------------------------------------------------------------------


def test_a_protected_guest_is_spared_before_a_dearer_one():
    engine = full("a")
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 2000, 1, app="web"), wants("dear", 2000, 9))
    assert evicted(decide_arrivals(engine, wants("high", 2000, 10))) == ["dear"]


def test_a_budget_with_something_left_protects_nobody():
    engine = full("a")
    protect(engine, "web", 1)
    runs(engine, "a", wants("web", 2000, 1, app="web"), wants("dear", 2000, 9))
    assert evicted(decide_arrivals(engine, wants("high", 2000, 10))) == ["web"]
    assert allowed(engine, "web") == 0


def test_budget_protects_its_least_important_guests():
    # In the order of importance web-2 and web-1 use up the budget, so web-0 is the one that would break it.
    engine = full("a")
    protect(engine, "web", 2)
    runs(engine, "a", *(wants(f"web-{i}", 1000, i, app="web") for i in range(3)), wants("db", 1000, 9))
    assert evicted(decide_arrivals(engine, wants("high", 1000, 10))) == ["web-1"]


def test_budgets_are_broken_when_nothing_else_helps():
    engine = full("a")
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["web"]
    assert allowed(engine, "web") == -1


def test_a_host_where_a_budget_is_broken_is_the_last_choice():
    engine = full("a", "b")
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    runs(engine, "b", wants("dear", 4000, 9))
    assert nominated(decide_arrivals(engine, wants("high", 4000, 10))) == {"high": "b"}


def test_a_guest_may_be_protected_by_several_budgets():
    engine = full("a", "b")
    protect(engine, "web", 5)
    everybody = Selector()
    engine.apply(BudgetChanged(budget=Budget(name="all", selector=everybody, allowed=0)))
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    runs(engine, "b", wants("other", 4000, 9, namespace="elsewhere"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["other"]


# -- who is meant -----------------------------------------------------------------------------------------------------


def test_a_budget_without_a_selector_protects_nobody():
    engine = full("a", budgets="strict")
    engine.apply(BudgetChanged(budget=Budget(name="none", selector=None, allowed=0)))
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["web"]


def test_a_budget_protects_guests_of_its_own_namespace_only():
    engine = full("a", budgets="strict")
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 4000, 1, app="web", namespace="elsewhere"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["web"]


def test_a_guest_whose_disruption_is_counted_already_is_not_counted_again():
    engine = full("a", budgets="strict")
    protect(engine, "web", 0, disrupted=("web",))
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["web"]
    assert allowed(engine, "web") == 0


# -- strict -----------------------------------------------------------------------------------------------------------


def test_strict_budgets_are_never_broken():
    # Scenario 27: disruptionsAllowed is 0.
    engine = full("a", budgets="strict")
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []
    assert engine.decision("high").note == "no eviction helps"
    assert allowed(engine, "web") == 0


def test_a_stale_negative_budget_counts_as_none():
    engine = full("a", budgets="strict")
    protect(engine, "web", -1)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []


def test_strict_budgets_bound_the_number_of_victims_together():
    engine = full("a", "b", budgets="strict")
    protect(engine, "web", 2)
    for name in "ab":
        runs(engine, name, *(wants(f"{name}{i}", 2000, 1, app="web") for i in range(2)))
    assert len(evicted(decide_arrivals(engine, wants("one", 4000, 10)))) == 2
    assert evicted(decide_arrivals(engine, wants("two", 4000, 10))) == []
    assert allowed(engine, "web") == 0


def test_a_strict_budget_leaves_a_host_that_needs_none_of_it():
    engine = full("a", "b", budgets="strict")
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    runs(engine, "b", wants("dear", 4000, 9))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["dear"]


def test_each_policy_has_its_own_way_with_budgets():
    strict = preempting("pack", budgets="strict")
    engine = engine_with([host("a")], preempting(), strict)
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("strict", 4000, 10, policy="pack"))) == []
    assert evicted(decide_arrivals(engine, wants("loose", 4000, 10))) == ["web"]


def test_strict_budgets_hold_for_a_gang_that_falls_as_one():
    engine = full("a", "b", budgets="strict")
    protect(engine, "web", 1)
    form(engine, "team", 2, disruption="all")
    runs(engine, "a", wants("team-0", 4000, 1, gang="team", app="web"))
    runs(engine, "b", wants("team-1", 1000, 1, gang="team", app="web"), wants("rest", 3000, 99))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []


def test_strict_budgets_hold_for_the_victims_of_a_gang():
    engine = full("a", "b", budgets="strict")
    protect(engine, "web", 1)
    for name in "ab":
        runs(engine, name, wants(name, 4000, 1, app="web"))
    form(engine, "team", 2)
    assert evicted(decide_arrivals(engine, *members("team", 2, 4000, priority=10))) == []
    protect(engine, "web", 2)
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert sorted(front.evictions) == ["a", "b"]


def test_a_strict_set_of_victims_is_found_where_one_exists():
    # Of web-a (1 core), web-b (2) and web-c (1) one may go; the preemptor needs two cores of four.
    engine = full("a", budgets="strict")
    protect(engine, "web", 1)
    sizes = {"web-a": (1000, 3), "web-b": (2000, 2), "web-c": (1000, 1)}
    runs(engine, "a", *(wants(name, cpu, p, app="web") for name, (cpu, p) in sizes.items()))
    assert evicted(decide_arrivals(engine, wants("high", 2000, 10))) == ["web-b"]


# -- counting ---------------------------------------------------------------------------------------------------------


def test_an_eviction_counts_from_when_it_is_asked_for():
    engine = full("a", "b", budgets="strict")
    protect(engine, "web", 1)
    for name in "ab":
        runs(engine, name, wants(name, 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("one", 4000, 10), wants("two", 4000, 10))) == ["a"]
    assert engine.decision("two").note == "no eviction helps"


def test_a_failed_eviction_gives_back_what_it_took():
    engine = full("a", budgets="strict")
    protect(engine, "web", 1)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    decide_arrivals(engine, wants("high", 4000, 10))
    engine.apply(EvictFailed(uid="web"))
    assert allowed(engine, "web") == 1


def test_failed_eviction_refunds_nothing_to_a_restated_budget():
    engine = full("a", budgets="strict")
    protect(engine, "web", 1, version=1)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    decide_arrivals(engine, wants("high", 4000, 10))
    protect(engine, "web", 1, version=2)
    engine.apply(EvictFailed(uid="web"))
    assert allowed(engine, "web") == 1


def test_eviction_in_flight_counts_against_a_restated_budget():
    # The front does not say that web-a's disruption is counted in what is allowed.
    engine = full("a", "b", budgets="strict")
    protect(engine, "web", 1, version=1)
    for name in "ab":
        runs(engine, name, wants(f"web-{name}", 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("one", 4000, 10))) == ["web-a"]
    protect(engine, "web", 1, version=2)
    assert evicted(decide_arrivals(engine, wants("two", 4000, 10))) == []


def test_an_eviction_that_the_budget_counts_already_is_not_counted_twice():
    engine = full("a", "b", budgets="strict")
    protect(engine, "web", 1, version=1)
    for name in "ab":
        runs(engine, name, wants(f"web-{name}", 4000, 1, app="web"))
    assert evicted(decide_arrivals(engine, wants("one", 4000, 10))) == ["web-a"]
    protect(engine, "web", 1, version=2, disrupted=("web-a",))
    assert evicted(decide_arrivals(engine, wants("two", 4000, 10))) == ["web-b"]


def test_failed_release_of_a_broken_gang_refunds_only_what_it_took():
    engine = full("a")
    protect(engine, "web", 0)
    form(engine, "team", 2, when_broken="release_after", release_after_ns=5 * SECOND)
    arrive(engine, *members("team", 2, 1000, app="web"))
    front = SimpleFront(engine, evicts=False)
    front.step()
    leave(engine, "team-1")
    before = allowed(engine, "web")
    assert evicted(front.settle(10 * SECOND)) == ["team-0"]
    engine.apply(EvictFailed(uid="team-0"))
    assert allowed(engine, "web") == before


def test_older_facts_about_a_budget_change_nothing():
    engine = full("a")
    protect(engine, "web", 3, version=5)
    protect(engine, "web", 0, version=4)
    assert allowed(engine, "web") == 3


@pytest.mark.parametrize("change", ["raise", "remove"])
def test_a_waiting_preemptor_looks_again_when_a_budget_allows_more(change):
    engine = full("a", budgets="strict")
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    decide_arrivals(engine, wants("high", 4000, 10))
    if change == "raise":
        protect(engine, "web", 1)
    else:
        engine.apply(BudgetLeft(key="default/web"))
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert front.evictions == ["web"]
    assert engine.decision("high").host == "a"


def test_preemptor_is_placed_when_its_victim_left_without_budget():
    engine = full("a", budgets="strict")
    protect(engine, "web", 1)
    runs(engine, "a", wants("web", 4000, 1, app="web"))
    decide_arrivals(engine, wants("high", 4000, 10))
    engine.apply(GuestLeft(uid="web"))
    protect(engine, "web", 0)
    assert binds(step(engine, SECOND)) == {"high": "a"}


def test_budgets_survive_a_restart():
    engine = full("a", "b", budgets="strict")
    protect(engine, "web", 1)
    for name in "ab":
        runs(engine, name, wants(name, 4000, 1, app="web"))
    decide_arrivals(engine, wants("one", 4000, 10))
    again = Engine.restore(engine.checkpoint())
    assert allowed(again, "web") == 0
    assert evicted(decide_arrivals(again, wants("two", 4000, 10))) == []


def test_selectors_of_budgets_are_those_of_labels():
    engine = full("a", budgets="strict")
    engine.apply(BudgetChanged(budget=Budget(name="b", selector=app("web"), allowed=0)))
    runs(engine, "a", wants("db", 4000, 1, app="db"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["db"]
