"""After a preemption was started: room is kept, victims are waited for, and evictions are kept in check."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from hostler.engine import ClusterView, Engine, Registry, Wake
from hostler.model import (
    Bind,
    BindFailed,
    Defer,
    Evict,
    EvictFailed,
    Expression,
    Guest,
    GuestLeft,
    GuestSpec,
    HostChanged,
    HostJoined,
    HostLeft,
    Nominate,
    PluginUse,
    PolicyChanged,
    Reservation,
    ReservationChanged,
    Term,
    amounts,
)
from hostler.model.policies import DEFAULT_FILTERS
from tests.engine.fleet import SECOND, arrive, binds, declared, due, engine_with, host, states, step
from tests.engine.gang_instances import (
    SimpleFront,
    evicted,
    form,
    held_for,
    leave,
    nominated,
    places,
    preempting,
    protect,
    runs,
    wants,
)


def full(*hosts: str, **rules) -> Engine:
    """Return an engine whose hosts of four cores are taken by one guest of priority 0 each, named after its host."""
    engine = engine_with([host(name) for name in hosts], preempting(**rules))
    for name in hosts:
        runs(engine, name, wants(f"on-{name}", 4000))
    return engine


def decide_arrivals(engine: Engine, *guests: Guest, now: int | None = None) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now if now is None else now)


# -- room that is kept ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [9, 10])
def test_freed_room_is_kept_from_guests_of_equal_and_lower_priority(priority):
    engine = full("a")
    decide_arrivals(engine, wants("high", 2000, 10))
    engine.apply(GuestLeft(uid="on-a"))
    fork = engine.fork()
    # Half of the host is free for everybody, the other half is kept.
    assert binds(decide_arrivals(fork, wants("half", 2000, priority))) == {"high": "a", "half": "a"}
    arrive(engine, wants("whole", 4000, priority))
    assert binds(step(engine, 0)) == {"high": "a"}
    assert engine.decision("whole").host == ""


def test_room_is_kept_while_the_victims_are_on_their_way():
    engine = engine_with([host("a")], preempting())
    runs(engine, "a", wants("one", 2000, 1), wants("two", 2000, 2))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["two", "one"]
    leave(engine, "one")
    assert binds(decide_arrivals(engine, wants("small", 1000, 9))) == {}
    assert states(engine)["small"] == "waiting"
    leave(engine, "two")
    assert binds(step(engine, 20 * SECOND)) == {"high": "a"}


def test_freed_room_is_not_kept_from_a_guest_of_higher_priority():
    # Scenario 25: a higher one takes it; the preemptor runs again and nobody is evicted without need.
    engine = full("a", "b")
    runs(engine, "b", wants("rest", 0, 99))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["on-a"]
    leave(engine, "on-a")
    actions = decide_arrivals(engine, wants("top", 4000, 11), now=SECOND)
    assert binds(actions) == {"top": "a"}
    assert nominated(actions) == {"high": "b"}
    assert evicted(actions) == ["on-b"]
    leave(engine, "on-b")
    assert binds(step(engine, 2 * SECOND)) == {"high": "b"}


def test_a_preemptor_robbed_of_its_room_gives_up_what_was_kept_for_it():
    engine = full("a")
    decide_arrivals(engine, wants("high", 4000, 10))
    leave(engine, "on-a")
    assert binds(decide_arrivals(engine, wants("top", 4000, 11))) == {"top": "a"}
    assert held_for(engine) == {}
    assert engine.state.nominations == {}
    assert engine.decision("high").note == "no eviction helps"


def test_nominated_host_is_tried_before_one_with_a_higher_score():
    engine = engine_with([host("a"), host("b")], preempting("spread"))
    runs(engine, "a", wants("low", 4000))
    runs(engine, "b", wants("top", 4000, 99))
    decide_arrivals(engine, wants("high", 2000, 10))
    leave(engine, "low", "top")
    engine.apply(HostChanged(host=host("b", cpu=64000)))
    assert binds(step(engine, 0)) == {"high": "a"}


def test_preemptor_takes_free_room_elsewhere_before_victims_leave():
    engine = full("a", "b")
    decide_arrivals(engine, wants("high", 4000, 10))
    leave(engine, "on-b")
    assert binds(step(engine, 20 * SECOND)) == {"high": "b"}
    assert held_for(engine) == {}
    leave(engine, "on-a")
    assert binds(decide_arrivals(engine, wants("small", 4000))) == {"small": "a"}


def test_a_preemptor_that_leaves_keeps_no_room():
    engine = full("a")
    decide_arrivals(engine, wants("high", 4000, 10), wants("small", 4000))
    leave(engine, "high")
    assert held_for(engine) == {}
    leave(engine, "on-a")
    assert binds(step(engine, 20 * SECOND)) == {"small": "a"}


def test_a_preemptor_that_was_bound_elsewhere_by_others_keeps_no_room():
    engine = full("a", "b")
    decide_arrivals(engine, wants("high", 4000, 10, version=1))
    engine.apply(HostChanged(host=host("b", cpu=8000)))
    runs(engine, "b", wants("high", 4000, 10, version=2))
    assert held_for(engine) == {}
    leave(engine, "on-a")
    assert binds(decide_arrivals(engine, wants("small", 4000))) == {"small": "a"}


def test_a_preemptor_with_another_shape_is_decided_again():
    engine = full("a", "b")
    assert nominated(decide_arrivals(engine, wants("high", 4000, 10, version=1))) == {"high": "a"}
    runs(engine, "b", wants("zero", 0))
    leave(engine, "on-b")
    arrive(engine, wants("high", 1000, 10, version=2, selector={}))
    assert list(binds(step(engine, SECOND))) == ["high"]
    assert held_for(engine) == {}


# -- waiting for victims ----------------------------------------------------------------------------------------------


def test_a_preemptor_waits_for_its_victims_and_evicts_no_others():
    # Scenario 24.
    engine = full("a", "b")
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["on-a"]
    front = SimpleFront(engine, evicts=False)
    engine.apply(HostJoined(host=host("c", cpu=1000), at=60 * SECOND))
    front.settle(9 * 60 * SECOND)
    assert front.evictions == []
    assert engine.decision("high").note == "waits for its victims to leave"


def test_victim_that_never_leaves_is_awaited_until_the_deadline():
    # Scenario 24: after the limit the preemptor looks elsewhere.
    engine = full("a", "b", wait_ns=30 * SECOND)
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["on-a"]
    assert due(engine) == 30 * SECOND
    assert step(engine, 30 * SECOND - 1) == []
    actions = step(engine, 30 * SECOND)
    assert nominated(actions) == {"high": "b"}
    assert evicted(actions) == ["on-b"]
    assert held_for(engine) == {"b": ["nomination:high"]}
    leave(engine, "on-b")
    assert binds(step(engine, 31 * SECOND)) == {"high": "b"}


def test_a_late_victim_still_makes_room():
    engine = full("a", wait_ns=30 * SECOND)
    decide_arrivals(engine, wants("high", 4000, 10))
    step(engine, 30 * SECOND)
    assert held_for(engine) == {}
    leave(engine, "on-a")
    assert binds(step(engine, 60 * SECOND)) == {"high": "a"}


def test_victim_that_cannot_be_evicted_sends_the_preemptor_elsewhere():
    engine = full("a", "b")
    decide_arrivals(engine, wants("high", 4000, 10))
    engine.apply(EvictFailed(uid="on-a", reason="no"))
    actions = step(engine, SECOND)
    assert nominated(actions) == {"high": "b"}
    assert evicted(actions) == ["on-b"]


def test_a_guest_whose_eviction_failed_may_be_evicted_for_another_one():
    engine = full("a")
    decide_arrivals(engine, wants("high", 4000, 10))
    engine.apply(EvictFailed(uid="on-a"))
    assert evicted(step(engine, SECOND)) == []
    assert evicted(decide_arrivals(engine, wants("other", 4000, 11))) == ["on-a"]


def test_a_failed_eviction_of_one_of_several_victims_ends_the_preemption():
    engine = engine_with([host("a"), host("b")], preempting())
    runs(engine, "a", wants("a1", 2000, 1), wants("a2", 2000, 1))
    runs(engine, "b", wants("b1", 2000, 5), wants("b2", 2000, 5))
    assert sorted(evicted(decide_arrivals(engine, wants("high", 4000, 10)))) == ["a1", "a2"]
    leave(engine, "a1")
    engine.apply(EvictFailed(uid="a2"))
    assert sorted(evicted(step(engine, SECOND))) == ["b1", "b2"]


def test_a_nominated_host_that_leaves_is_not_waited_for():
    engine = full("a", "b")
    decide_arrivals(engine, wants("high", 4000, 10))
    engine.apply(HostLeft(name="a"))
    assert nominated(step(engine, SECOND)) == {"high": "b"}


def test_a_nominated_host_that_is_cordoned_is_not_waited_for():
    # Spec 2.5: wait for the victims, unless the host became one that no eviction can help on.
    engine = full("a", "b")
    decide_arrivals(engine, wants("high", 4000, 10))
    engine.apply(HostChanged(host=host("a", cordoned=True), at=SECOND))
    found: list = []
    for _ in range(5):
        at = engine.next_due()
        if at is None or at > 60 * SECOND:
            break
        found += step(engine, at)
    assert nominated(found) == {"high": "b"}


def test_a_victim_whose_bind_fails_has_left_its_host_too():
    engine = engine_with([host("a")], preempting())
    assert binds(decide_arrivals(engine, wants("low", 4000))) == {"low": "a"}
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["low"]
    engine.apply(BindFailed(uid="low", host="a", at=SECOND))
    assert binds(step(engine, SECOND)) == {"high": "a"}


def test_guest_whose_bind_failed_under_eviction_can_be_evicted_later():
    engine = full("b")
    engine.apply(HostJoined(host=host("a")))
    decide_arrivals(engine, wants("low", 4000, 1))
    decide_arrivals(engine, wants("high", 4000, 10, host_name="a"))
    engine.apply(BindFailed(uid="low", host="a", at=SECOND))
    leave(engine, "on-b")
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert places(engine, "high", "low") == ["a", "b"]
    assert evicted(decide_arrivals(engine, wants("more", 4000, 10))) == ["low"]


def test_two_preemptors_of_one_victim_are_both_placed():
    engine = full("a")
    arrive(engine, wants("one", 2000, 10), wants("two", 2000, 10))
    actions = step(engine, 0)
    assert nominated(actions) == {"one": "a", "two": "a"}
    assert evicted(actions) == ["on-a"]
    leave(engine, "on-a")
    assert binds(step(engine, SECOND)) == {"one": "a", "two": "a"}


def test_higher_preemptor_is_placed_when_another_ones_victim_leaves():
    engine = full("a")
    decide_arrivals(engine, wants("high", 4000, 10))
    actions = decide_arrivals(engine, wants("top", 4000, 11))
    assert (nominated(actions), evicted(actions)) == ({"top": "a"}, [])
    leave(engine, "on-a")
    assert binds(step(engine, SECOND)) == {"top": "a"}


def test_a_failed_eviction_concerns_every_preemptor_that_counted_on_it():
    engine = full("a", "b")
    runs(engine, "b", wants("rest", 0, 5))
    decide_arrivals(engine, wants("one", 2000, 10), wants("two", 2000, 10))
    assert set(held_for(engine)) == {"a"}
    engine.apply(EvictFailed(uid="on-a"))
    assert nominated(step(engine, SECOND)) == {"one": "b", "two": "b"}


def test_the_front_is_notified_when_room_is_no_longer_kept():
    # Nominate without a host: "no longer".
    engine = full("a")
    decide_arrivals(engine, wants("high", 4000, 10))
    engine.apply(EvictFailed(uid="on-a"))
    actions = step(engine, SECOND)
    assert nominated(actions) == {"high": ""}


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_preemptor_evicts_no_more_than_the_window_allows():
    engine = engine_with([host("a")], preempting(max_evictions=2))
    runs(engine, "a", *(wants(f"low-{i}", 1000) for i in range(4)))
    actions = decide_arrivals(engine, wants("three", 3000, 10))
    assert evicted(actions) == []
    assert engine.decision("three").note == "does not evict others: more than 2 guests in the window"
    assert len(evicted(decide_arrivals(engine, wants("two", 2000, 10)))) == 2


def test_evictions_add_up_within_the_window():
    engine = full("a", "b", "c", max_evictions=2, window_ns=100 * SECOND, wait_ns=10 * SECOND)
    decide_arrivals(engine, wants("high", 4000, 10))
    assert evicted(step(engine, 10 * SECOND)) == ["on-b"]
    front = SimpleFront(engine, evicts=False)
    front.settle(99 * SECOND)
    assert front.evictions == []
    assert engine.decision("high").note == "does not evict others: more than 2 guests in the window"
    leave(engine, "on-a")
    assert binds(step(engine, 99 * SECOND)) == {"high": "a"}


def test_every_preemptor_has_a_budget_of_its_own():
    engine = full("a", "b", max_evictions=1)
    assert len(evicted(decide_arrivals(engine, wants("one", 4000, 10), wants("two", 4000, 10)))) == 2


def reborn(engine: Engine, round_number: int) -> None:
    """Let another program put the victim back where it was."""
    runs(engine, "a", wants(f"again-{round_number}", 4000))


def test_victim_back_under_another_scheduler_is_not_evicted_for_ever():
    # Scenario 26 (kubernetes/kubernetes#130429: 8,000 evictions in two days).
    engine = engine_with([host("a")], preempting(max_repeats=3))
    reborn(engine, 0)
    arrive(engine, wants("high", 4000, 10))
    count = 0
    for now in range(0, 500 * SECOND, 5 * SECOND):
        actions = step(engine, now)
        for action in actions:
            if isinstance(action, Evict):
                count += 1
                leave(engine, action.uid)
                reborn(engine, count)
    assert count == 3
    assert engine.decision("high").note == "no eviction helps"


def test_after_the_window_a_host_is_tried_again():
    engine = engine_with([host("a")], preempting(max_repeats=1, window_ns=60 * SECOND))
    reborn(engine, 0)
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["again-0"]
    leave(engine, "again-0")
    reborn(engine, 1)
    assert evicted(step(engine, SECOND)) == []
    assert evicted(step(engine, 600 * SECOND)) == ["again-1"]


def test_a_host_that_brought_nothing_is_left_for_another_one():
    engine = full("a", "b", max_repeats=1)
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["on-a"]
    leave(engine, "on-a")
    reborn(engine, 1)
    assert evicted(step(engine, SECOND)) == ["on-b"]


def test_other_preemptors_are_free_to_evict_where_one_had_no_luck():
    engine = engine_with([host("a")], preempting(max_repeats=1))
    reborn(engine, 0)
    decide_arrivals(engine, wants("high", 4000, 10))
    leave(engine, "again-0")
    reborn(engine, 1)
    assert evicted(step(engine, SECOND)) == []
    assert evicted(decide_arrivals(engine, wants("other", 4000, 10, app="x"))) == ["again-1"]


def near(level: int) -> dict:
    """Return what lets a guest run on its own host and on the one below it only."""
    return {"host_affinity": (Term((Expression("n", "In", (str(level), str(level - 1))),)),), "app": f"p{level}"}


def cascade(**rules) -> tuple[Engine, list[str]]:
    """Let a guest evict one that comes back and evicts the next, and so on; return who was evicted."""
    engine = engine_with([host(f"h{i}", labels={"n": str(i)}) for i in range(1, 5)], preempting(**rules))
    for i in range(1, 5):
        runs(engine, f"h{i}", wants(f"p{i}", 4000, i, **near(i)))
    arrive(engine, wants("p5", 4000, 5, **near(5)))
    taken: list[str] = []
    for _ in range(12):
        for uid in evicted(step(engine, engine.now + SECOND)):
            taken.append(uid)
            was = engine.state.guests[uid].guest
            leave(engine, uid)
            arrive(engine, msgspec.structs.replace(was, name=f"{uid}-again", uid=f"{uid}-again", host=""))
    return engine, taken


@pytest.mark.parametrize(("deep", "taken"), [(0, 1), (1, 2), (2, 3), (3, 4), (9, 4)])
def test_cascades_end_at_the_depth_that_the_rules_say(deep, taken):
    engine, victims = cascade(max_cascade=deep)
    assert victims == ["p4", "p3", "p2", "p1"][:taken]
    last = f"{victims[-1]}-again"
    in_cascade = "does not evict others: it was evicted itself in a cascade of preemptions"
    expected = "no eviction helps" if deep > 3 else in_cascade
    assert engine.decision(last).note == expected


def test_after_the_window_a_cascade_is_forgotten():
    engine, victims = cascade(max_cascade=0, window_ns=60 * SECOND)
    assert victims == ["p4"]
    front = SimpleFront(engine)
    front.settle(1000 * SECOND)
    assert front.evictions[0] == "p3"


def test_a_gang_that_evicts_counts_in_a_cascade_as_well():
    engine = engine_with([host("a", labels={"n": "1"}), host("b", labels={"n": "2"})], preempting(max_cascade=0))
    runs(engine, "a", wants("p1", 4000, 1, **near(1)))
    runs(engine, "b", wants("p2", 4000, 2, **near(2)))
    form(engine, "team", 1)
    actions = decide_arrivals(engine, wants("team-0", 4000, 9, gang="team", selector={"n": "2"}))
    assert evicted(actions) == ["p2"]
    leave(engine, "p2")
    assert binds(step(engine, SECOND)) == {"team-0": "b"}
    assert evicted(decide_arrivals(engine, wants("p2-again", 4000, 2, **near(2)))) == []


# -- plans ------------------------------------------------------------------------------------------------------------


class RejectsAll:
    """A filter of one's own that refuses every host."""

    name = "closed"
    reasons = declared("closed", "shut", cures=frozenset({Wake.HOST_JOINED}))

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        pass

    def evaluate(self, spec: GuestSpec, rows: np.ndarray) -> np.ndarray:
        return np.ones(len(rows), dtype=np.int64)


@pytest.mark.parametrize("taken", [1000, 4000])
def test_nobody_is_evicted_where_a_plugin_refuses_anyway(taken):
    filters = tuple(PluginUse(name) for name in (*DEFAULT_FILTERS, "closed"))
    own = msgspec.structs.replace(preempting(), filters=filters)
    engine = engine_with([host("a")], own, registry=Registry(extra={"closed": RejectsAll}))
    runs(engine, "a", wants("low", taken))
    assert [type(a) for a in decide_arrivals(engine, wants("high", 4000, 10))] == [Defer]


def test_other_rules_count_from_now_on_for_plans_as_well():
    engine = engine_with([host("a")], preempting(budgets="strict"))
    protect(engine, "web", 0)
    runs(engine, "a", wants("low", 4000, app="web"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []
    engine.apply(PolicyChanged(policies=(preempting(budgets="best_effort"),)))
    assert evicted(step(engine, 20 * SECOND)) == ["low"]


def test_stricter_rules_count_from_now_on_for_plans_as_well():
    engine = engine_with([host("a")], preempting(budgets="best_effort", max_evictions=0))
    protect(engine, "web", 0)
    runs(engine, "a", wants("low", 4000, app="web"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []
    engine.apply(PolicyChanged(policies=(preempting(budgets="strict"),)))
    assert evicted(step(engine, 20 * SECOND)) == []


def test_other_limits_of_hosts_count_from_now_on_for_plans_as_well():
    engine = engine_with([host("a")], preempting())
    runs(engine, "a", wants("one", 4000, 1), wants("two", 4000, 2))
    assert evicted(decide_arrivals(engine, wants("huge", 5000, 10))) == []
    wide = msgspec.structs.replace(preempting(), overcommit=(("cpu", 2_000_000),))
    engine.apply(PolicyChanged(policies=(wide,)))
    assert evicted(step(engine, 20 * SECOND)) == ["two", "one"]


def test_what_is_reserved_for_the_preemptor_counts_as_free_for_it():
    engine = engine_with([host("a")], preempting())
    reservation = Reservation(name="r", amounts=amounts({"cpu": 2000}), tenant="t")
    engine.apply(ReservationChanged(reservation=reservation))
    runs(engine, "a", wants("low", 2000))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10, tenant="t"))) == ["low"]


def test_what_is_reserved_for_others_is_no_room_for_a_preemptor():
    engine = engine_with([host("a")], preempting())
    reservation = Reservation(name="r", amounts=amounts({"cpu": 2000}), tenant="t")
    engine.apply(ReservationChanged(reservation=reservation))
    runs(engine, "a", wants("low", 2000))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []
    assert evicted(decide_arrivals(engine, wants("lean", 2000, 10))) == ["low"]


def test_what_is_kept_for_another_preemptor_is_no_room():
    engine = engine_with([host("a", cpu=8000)], preempting())
    runs(engine, "a", wants("one", 4000, 1), wants("two", 4000, 2))
    assert evicted(decide_arrivals(engine, wants("first", 4000, 10))) == ["one"]
    assert evicted(decide_arrivals(engine, wants("second", 4000, 10))) == ["two"]
    assert evicted(decide_arrivals(engine, wants("third", 4000, 10))) == []


def test_a_preemption_survives_a_restart():
    engine = full("a", wait_ns=30 * SECOND)
    decide_arrivals(engine, wants("high", 4000, 10))
    again = Engine.restore(engine.checkpoint())
    assert again.checkpoint() == engine.checkpoint()
    assert held_for(again) == held_for(engine)
    assert again.next_due() == engine.next_due() == 30 * SECOND
    for each in (engine, again):
        leave(each, "on-a")
        assert binds(decide_arrivals(each, wants("small", 4000, 9))) == {"high": "a"}
    assert again.checkpoint() == engine.checkpoint()


def test_room_is_kept_by_the_same_priority_before_and_after_a_restart():
    # The preemptor has come down from 10 to 1 since the room was kept for it, so one of priority 5 may have it.
    engine = engine_with([host("a")], preempting())
    runs(engine, "a", wants("one", 2000), wants("two", 2000))
    decide_arrivals(engine, wants("high", 4000, 10, version=1))
    leave(engine, "one")
    arrive(engine, wants("high", 4000, 1, version=2), wants("mid", 2000, 5, may_preempt=False))
    again = Engine.restore(engine.checkpoint())
    assert binds(step(engine, SECOND)) == {"mid": "a"}
    assert binds(step(again, SECOND)) == {"mid": "a"}


def test_room_for_a_gang_has_the_same_priority_after_a_restart():
    engine = engine_with([host("a")], preempting())
    runs(engine, "a", wants("old", 1000, 99))
    form(engine, "team", 4, priority=9, head_of_line="reserve")
    decide_arrivals(engine, *(wants(f"team-{i}", 1000, gang="team") for i in range(4)))
    form(engine, "team", 4, head_of_line="reserve")
    arrive(engine, wants("mid", 3000, 5))
    again = Engine.restore(engine.checkpoint())
    assert binds(step(engine, 0)) == {"mid": "a"}
    assert binds(step(again, 0)) == {"mid": "a"}


@pytest.mark.parametrize("how", ["joins", "changes", "leaves"])
def test_room_for_a_gang_follows_the_lowest_priority_of_its_members(how):
    engine = engine_with([host("a")], preempting())
    runs(engine, "a", wants("old", 1000, 99))
    form(engine, "team", 4, head_of_line="reserve")
    first = 3 if how == "leaves" else 9
    arrive(engine, *(wants(f"team-{i}", 1000, 9, gang="team", version=1) for i in range(4)))
    arrive(engine, wants("team-4", 1000, first, gang="team", version=1))
    step(engine, 0)
    if how == "joins":
        arrive(engine, wants("team-5", 1000, 3, gang="team"))
    elif how == "changes":
        arrive(engine, wants("team-4", 1000, 3, gang="team", version=2))
    else:
        leave(engine, "team-4")
    arrive(engine, wants("mid", 3000, 5, may_preempt=False))
    again = Engine.restore(engine.checkpoint())
    expected = {} if how == "leaves" else {"mid": "a"}
    assert binds(step(engine, 0)) == expected
    assert binds(step(again, 0)) == expected


def test_the_limits_survive_a_restart():
    engine = full("a", max_repeats=1)
    decide_arrivals(engine, wants("high", 4000, 10))
    leave(engine, "on-a")
    reborn(engine, 1)
    again = Engine.restore(engine.checkpoint())
    assert evicted(step(again, SECOND)) == evicted(step(engine, SECOND)) == []


def test_a_fork_does_not_evict_for_its_origin():
    engine = full("a")
    fork = engine.fork()
    before = engine.checkpoint()
    assert evicted(decide_arrivals(fork, wants("high", 4000, 10))) == ["on-a"]
    assert engine.checkpoint() == before
    assert binds(decide_arrivals(engine, wants("none", 0))) == {"none": "a"}


def test_a_nomination_is_the_only_action_kind_that_names_victims():
    engine = full("a")
    actions = decide_arrivals(engine, wants("high", 4000, 10))
    assert [a.victims for a in actions if isinstance(a, Nominate)] == [("on-a",)]
    assert not any(isinstance(a, Bind) for a in actions)
