"""Preemption for a gang as a whole: who has to go, that all of its room is kept, and that it ends."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.model import (
    Defer,
    Evict,
    EvictFailed,
    GangLeft,
    GuestTerm,
    HostJoined,
    HostLeft,
    Nominate,
    Quota,
    QuotasChanged,
    amounts,
)
from tests.engine.fleet import SECOND, arrive, binds, engine_with, host, states, step
from tests.engine.gang_instances import (
    SimpleFront,
    app,
    evicted,
    form,
    held_for,
    leave,
    members,
    nominated,
    places,
    preempting,
    protect,
    runs,
    wants,
)


def full(count: int, **rules) -> Engine:
    """Return an engine with hosts a, b, ... of four cores, each taken by a guest of priority 0 named after it."""
    names = "abcdefgh"[:count]
    engine = engine_with([host(name, labels={"rack": name}) for name in names], preempting(**rules))
    for name in names:
        runs(engine, name, wants(f"on-{name}", 4000))
    return engine


def decide_arrivals(engine: Engine, *guests, now: int | None = None) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now if now is None else now)


# -- who has to go ----------------------------------------------------------------------------------------------------


def test_a_gang_evicts_what_all_of_its_members_need():
    engine = full(3)
    form(engine, "team", 2)
    actions = decide_arrivals(engine, *members("team", 2, 4000, priority=5))
    assert [type(a) for a in actions] == [Defer, Defer, Nominate, Nominate, Evict, Evict]
    assert len(set(nominated(actions).values())) == 2
    assert {a.preemptor for a in actions if isinstance(a, Evict)} == {"gang:default/team"}
    assert {a.reason for a in actions if isinstance(a, Evict)} == {"preempted by gang default/team"}
    assert {a.host for a in actions if isinstance(a, Evict)} == set(nominated(actions).values())
    leave(engine, *evicted(actions))
    assert binds(step(engine, SECOND)) == nominated(actions)
    assert held_for(engine) == {}
    assert engine.state.nominations == {}


def test_no_guest_is_evicted_for_a_gang_with_a_hopeless_member():
    engine = full(2)
    form(engine, "team", 3)
    actions = decide_arrivals(engine, *members("team", 3, 4000, priority=5))
    assert [type(a) for a in actions] == [Defer] * 3
    assert held_for(engine) == {}


def test_a_gang_evicts_no_more_than_its_members_need():
    engine = full(4)
    runs(engine, "a", wants("tiny", 0))
    form(engine, "team", 2)
    assert len(evicted(decide_arrivals(engine, *members("team", 2, 2000, priority=5)))) == 1


def test_a_gang_uses_free_room_and_evicts_for_the_rest():
    # Where it goes is decided as if everybody below were gone (KEP-5710), so the free host has to come first by name.
    engine = full(2)
    engine.apply(HostJoined(host=host("0")))
    form(engine, "team", 2)
    actions = decide_arrivals(engine, *members("team", 2, 4000, priority=5))
    assert sorted(nominated(actions).values()) == ["0", "a"]
    assert evicted(actions) == ["on-a"]


def test_a_gang_spares_the_most_important_units():
    engine = engine_with([host(name) for name in "abc"], preempting())
    for name, priority in (("a", 3), ("b", 1), ("c", 2)):
        runs(engine, name, wants(f"p{priority}", 4000, priority))
    form(engine, "team", 1)
    actions = decide_arrivals(engine, *members("team", 1, 4000, priority=5))
    # One of three equal hosts is enough; which one is where the member was put when all three were empty.
    assert len(evicted(actions)) == 1


def test_a_gang_spares_protected_units_first():
    engine = engine_with([host("a", cpu=8000)], preempting())
    protect(engine, "web", 0)
    runs(engine, "a", wants("web", 4000, 1, app="web"), wants("dear", 4000, 4))
    form(engine, "team", 2)
    assert evicted(decide_arrivals(engine, *members("team", 2, 2000, priority=5))) == ["dear"]


def test_a_gang_evicts_only_units_of_strictly_lower_priority():
    engine = full(2)
    form(engine, "team", 2)
    assert evicted(decide_arrivals(engine, *members("team", 2, 4000, priority=0))) == []


def test_a_gang_evicts_by_its_own_priority():
    engine = full(2)
    form(engine, "team", 2, priority=5)
    assert len(evicted(decide_arrivals(engine, *members("team", 2, 4000)))) == 2


def test_a_gang_of_low_priority_evicts_nobody_whatever_its_members_say():
    engine = full(2)
    form(engine, "team", 2, priority=0)
    assert evicted(decide_arrivals(engine, *members("team", 2, 4000, priority=9))) == []


def test_one_member_that_may_not_preempt_keeps_the_gang_from_it():
    engine = full(2)
    form(engine, "team", 2)
    team = [wants("one", 4000, 5, gang="team"), wants("two", 4000, 5, gang="team", may_preempt=False)]
    assert evicted(decide_arrivals(engine, *team)) == []


def test_a_gang_under_a_policy_without_preemption_evicts_nobody():
    engine = engine_with([host("a")], "first_fit")
    runs(engine, "a", wants("low", 4000))
    form(engine, "team", 1)
    assert evicted(decide_arrivals(engine, *members("team", 1, 4000, priority=5))) == []


def test_a_gang_evicts_gangs_that_fall_as_one_wholly():
    engine = engine_with([host(name) for name in "abc"], preempting())
    form(engine, "old", 3, disruption="all")
    for name, uid in zip("abc", ("old-0", "old-1", "old-2"), strict=True):
        runs(engine, name, wants(uid, 4000, 1, gang="old"))
    form(engine, "new", 2)
    assert sorted(evicted(decide_arrivals(engine, *members("new", 2, 4000, priority=5)))) == ["old-0", "old-1", "old-2"]


def test_a_gang_evicts_single_members_of_a_gang_that_does_not_fall_as_one():
    engine = engine_with([host(name) for name in "abc"], preempting())
    form(engine, "old", 3)
    for name, uid in zip("abc", ("old-0", "old-1", "old-2"), strict=True):
        runs(engine, name, wants(uid, 4000, 1, gang="old"))
    form(engine, "new", 2)
    assert len(evicted(decide_arrivals(engine, *members("new", 2, 4000, priority=5)))) == 2


def test_a_gang_may_fall_as_one_although_a_host_of_its_is_away():
    engine = engine_with([host(name) for name in "ab"], preempting())
    form(engine, "old", 2, disruption="all")
    for name, uid in zip("ab", ("old-0", "old-1"), strict=True):
        runs(engine, name, wants(uid, 4000, 1, gang="old"))
    engine.apply(HostLeft(name="b"))
    form(engine, "new", 1)
    arrive(engine, *members("new", 1, 4000, priority=5))
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert "old-0" in front.evictions
    assert places(engine, "new-0") == ["a"]


def test_guest_may_evict_a_gang_as_one_with_an_absent_host():
    engine = engine_with([host(name) for name in "ab"], preempting())
    form(engine, "old", 2, disruption="all")
    for name, uid in zip("ab", ("old-0", "old-1"), strict=True):
        runs(engine, name, wants(uid, 4000, 1, gang="old"))
    engine.apply(HostLeft(name="b"))
    assert "old-0" in evicted(decide_arrivals(engine, wants("high", 4000, 5)))


def test_a_gang_does_not_evict_its_own_members():
    engine = full(1)
    engine.apply(HostJoined(host=host("z")))
    form(engine, "team", 2, priority=9)
    runs(engine, "z", wants("team-0", 4000, gang="team"))
    actions = decide_arrivals(engine, wants("team-1", 4000, gang="team"))
    assert evicted(actions) == ["on-a"]


def test_a_gang_with_constraints_evicts_those_who_break_them():
    engine = engine_with([host(name, labels={"host": name}) for name in "ab"], preempting())
    runs(engine, "a", wants("web", 1000, app="web"), wants("other", 1000, app="db"))
    form(engine, "team", 2)
    apart = {"app": "x", "anti_affinity": (GuestTerm("host", app("web")), GuestTerm("host", app("x")))}
    actions = decide_arrivals(engine, *members("team", 2, 1000, priority=5, **apart))
    assert evicted(actions) == ["web"]
    leave(engine, "web")
    assert sorted(binds(step(engine, SECOND)).values()) == ["a", "b"]


def test_a_gang_confined_to_a_domain_evicts_in_one_only():
    racks = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")]
    engine = engine_with([host(name, labels={"rack": rack}) for name, rack in racks], preempting())
    for name, rack in racks:
        runs(engine, name, wants(f"{rack}-{name}", 4000))
    form(engine, "team", 2, topology="rack")
    actions = decide_arrivals(engine, *members("team", 2, 4000, priority=5))
    assert len({uid[0] for uid in evicted(actions)}) == 1
    assert len(evicted(actions)) == 2


def test_a_gang_beyond_its_quota_evicts_nobody():
    engine = full(2)
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 4000})),)))
    form(engine, "team", 2)
    actions = decide_arrivals(engine, *members("team", 2, 4000, priority=5, tenant="t"))
    assert evicted(actions) == []


def test_no_guest_is_evicted_for_a_member_beyond_its_quota():
    engine = full(1)
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 1000})),)))
    form(engine, "team", 1)
    team = [wants("huge", 9000, 5, gang="team"), wants("rich", 4000, 5, gang="team", tenant="t")]
    actions = decide_arrivals(engine, *team)
    assert [type(a) for a in actions] == [Defer, Defer]
    assert held_for(engine) == {}


def test_a_gang_beyond_its_quota_keeps_no_room():
    engine = engine_with([host("a", cpu=8000)], preempting())
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 4000})),)))
    runs(engine, "a", wants("low", 1000))
    form(engine, "team", 3)
    actions = decide_arrivals(engine, *members("team", 3, 2000, priority=5, tenant="t"))
    assert [type(a) for a in actions] == [Defer] * 3
    assert held_for(engine) == {}
    front = SimpleFront(engine)
    assert all(isinstance(a, Defer) for a in front.settle(1000 * SECOND))


def test_nobody_is_evicted_for_members_beyond_the_minimum():
    engine = full(2)
    engine.apply(HostJoined(host=host("z")))
    form(engine, "team", 1)
    actions = decide_arrivals(engine, *members("team", 2, 4000, priority=5))
    assert len(binds(actions)) == 1
    assert evicted(actions) == []


# -- following --------------------------------------------------------------------------------------------------------


def test_all_room_of_a_gang_is_kept_until_the_last_victim_has_left():
    engine = full(2)
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2, 4000, priority=5))
    leave(engine, "on-a")
    assert binds(decide_arrivals(engine, wants("small", 4000, 4), now=20 * SECOND)) == {}
    leave(engine, "on-b")
    assert sorted(binds(step(engine, 40 * SECOND))) == ["team-0", "team-1"]


@pytest.mark.parametrize("pause", [0, 1, 30], ids=lambda s: f"{s}s")
def test_gang_keeps_its_room_while_victims_leave_one_by_one(pause):
    # Spec 2.6: no second preemption while victims of the first terminate.
    engine = full(8, max_repeats=3)
    form(engine, "team", 5)
    first = evicted(decide_arrivals(engine, *members("team", 5, 4000, priority=5)))
    assert len(first) == 5
    front = SimpleFront(engine, evicts=False)
    for number, uid in enumerate(first, 1):
        front.settle(engine.now + pause * SECOND)
        arrive(engine, wants(f"small-{number}", 4000, 4, may_preempt=False))
        leave(engine, uid)
        front.step()
    front.settle(engine.now + 60 * SECOND)
    assert front.evictions == []
    assert len([uid for uid in states(engine) if uid.startswith("team") and engine.decision(uid).host]) == 5


def test_a_gang_waits_for_its_victims_no_longer_than_the_rules_say():
    # Scenario 24: after the limit it looks elsewhere.
    engine = full(2, wait_ns=30 * SECOND)
    form(engine, "team", 1)
    assert evicted(decide_arrivals(engine, *members("team", 1, 4000, priority=5))) == ["on-a"]
    front = SimpleFront(engine, evicts=False)
    front.settle(29 * SECOND)
    assert front.evictions == []
    assert held_for(engine) == {"a": ["nomination:team-0"]}
    front.settle(60 * SECOND)
    assert front.evictions == ["on-b"]


def test_what_happens_elsewhere_does_not_make_a_gang_wait_longer():
    engine = full(1, wait_ns=30 * SECOND)
    form(engine, "team", 1)
    decide_arrivals(engine, *members("team", 1, 4000, priority=5))
    front = SimpleFront(engine, evicts=False)
    for i in range(1, 6):
        engine.apply(HostJoined(host=host(f"tiny-{i}", cpu=100), at=5 * i * SECOND))
        front.settle(5 * i * SECOND)
    assert engine.state.nominations["gang:default/team"].deadline == 30 * SECOND


def test_a_victim_that_cannot_be_evicted_is_not_asked_for_again_and_again():
    engine = full(1)
    form(engine, "team", 1)
    arrive(engine, *members("team", 1, 4000, priority=5))
    count = 0
    for now in range(0, 590 * SECOND, 5 * SECOND):
        for action in step(engine, now):
            if isinstance(action, Evict):
                count += 1
                engine.apply(EvictFailed(uid=action.uid))
    assert 1 <= count <= 3
    assert held_for(engine) == {}


def test_victims_of_a_gang_that_come_back_are_not_evicted_for_ever():
    # Scenario 26, with a gang.
    engine = full(1, max_repeats=3)
    form(engine, "team", 1)
    arrive(engine, *members("team", 1, 4000, priority=5))
    count = 0
    for now in range(0, 590 * SECOND, 5 * SECOND):
        for action in step(engine, now):
            if isinstance(action, Evict):
                count += 1
                leave(engine, action.uid)
                runs(engine, "a", wants(f"again-{count}", 4000))
    assert count == 3


def test_a_gang_evicts_no_more_than_the_window_allows():
    engine = full(3, max_evictions=2)
    form(engine, "team", 3)
    assert evicted(decide_arrivals(engine, *members("team", 3, 4000, priority=5))) == []
    form(engine, "team", 2)
    leave(engine, "team-2")
    assert len(evicted(step(engine, 60 * SECOND))) == 2


def test_freed_room_of_a_gang_is_kept_by_the_gangs_priority():
    engine = full(2)
    form(engine, "team", 2, priority=9)
    leave(engine, *evicted(decide_arrivals(engine, *members("team", 2, 4000)))[:1])
    assert binds(decide_arrivals(engine, wants("mid", 4000, 5, may_preempt=False))) == {}


def test_gang_takes_room_by_its_own_priority_not_its_members():
    engine = full(1)
    decide_arrivals(engine, wants("mid", 4000, 5))
    leave(engine, "on-a")
    form(engine, "team", 2, priority=9)
    arrive(engine, *members("team", 2, 2000))
    assert sorted(binds(step(engine, SECOND))) == ["team-0", "team-1"]


def test_members_of_a_gang_of_low_priority_do_not_take_room_by_their_own():
    engine = full(1)
    decide_arrivals(engine, wants("mid", 4000, 5))
    leave(engine, "on-a")
    form(engine, "team", 2, priority=1)
    arrive(engine, *members("team", 2, 2000, priority=9))
    assert binds(step(engine, SECOND)) == {"mid": "a"}


def test_gang_priority_is_lent_to_members_only_while_it_is_decided():
    engine = full(1)
    decide_arrivals(engine, wants("mid", 4000, 5))
    leave(engine, "on-a")
    form(engine, "team", 3, priority=9)
    arrive(engine, *members("team", 3, 2000))
    arrive(engine, wants("alike", 2000))
    step(engine, SECOND)
    assert places(engine, "mid", "alike") == ["a", ""]


def test_holds_of_a_gang_do_not_block_it_in_its_explanation():
    engine = full(2)
    form(engine, "team", 2)
    leave(engine, *evicted(decide_arrivals(engine, *members("team", 2, 4000, priority=5))))
    advice = engine.explain("team-0").gang
    assert advice.would_place == 2
    assert held_for(engine) != {}


def test_the_explanation_of_a_gang_counts_its_quota():
    engine = engine_with([host("a"), host("b")], preempting())
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 4000})),)))
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2, 4000, tenant="t"))
    advice = engine.explain("team-0").gang
    assert (advice.would_place, advice.binding) == (1, "quota exceeded: cpu beyond the maximum of t")


def test_freed_room_of_a_gang_is_not_kept_from_a_higher_one():
    # Scenario 25, with a gang.
    engine = full(2)
    form(engine, "team", 2)
    victims = evicted(decide_arrivals(engine, *members("team", 2, 4000, priority=5)))
    leave(engine, *victims)
    actions = decide_arrivals(engine, wants("top", 4000, 6))
    assert list(binds(actions)) == ["top"]
    assert places(engine, "team-0", "team-1") == ["", ""]
    assert held_for(engine) == {}


def test_a_gang_takes_room_that_becomes_free_elsewhere():
    engine = full(2)
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2, 4000, priority=5))
    for name in "yz":
        engine.apply(HostJoined(host=host(name)))
    front = SimpleFront(engine, evicts=False)
    front.settle(30 * SECOND)
    assert places(engine, "team-0", "team-1") == ["y", "z"]
    assert held_for(engine) == {}


@pytest.mark.parametrize("how", ["gang leaves", "members leave", "quorum lost"])
def test_a_gang_that_no_longer_wants_room_keeps_none(how):
    engine = full(2)
    form(engine, "team", 2)
    victims = evicted(decide_arrivals(engine, *members("team", 2, 4000, priority=5)))
    if how == "gang leaves":
        engine.apply(GangLeft(key="default/team"))
    else:
        leave(engine, *(["team-0", "team-1"] if how == "members leave" else ["team-0"]))
    leave(engine, *victims)
    assert held_for(engine) == {}
    assert len(binds(decide_arrivals(engine, wants("one", 4000), wants("two", 4000)))) == 2


def test_a_nominated_host_of_a_gang_that_leaves_is_replaced():
    engine = full(3)
    form(engine, "team", 2)
    actions = decide_arrivals(engine, *members("team", 2, 4000, priority=5))
    lost = nominated(actions)["team-0"]
    engine.apply(HostLeft(name=lost))
    front = SimpleFront(engine)
    for uid in evicted(actions):
        leave(engine, uid)
    front.settle(120 * SECOND)
    assert "" not in places(engine, "team-0", "team-1")


def test_a_gang_that_preempts_survives_a_restart():
    engine = full(2, wait_ns=60 * SECOND)
    form(engine, "team", 2)
    victims = evicted(decide_arrivals(engine, *members("team", 2, 4000, priority=5)))
    again = Engine.restore(engine.checkpoint())
    assert again.checkpoint() == engine.checkpoint()
    assert (held_for(again), again.next_due()) == (held_for(engine), engine.next_due())
    for each in (engine, again):
        leave(each, *victims)
    assert step(again, SECOND) == step(engine, SECOND)
    assert again.checkpoint() == engine.checkpoint()


def test_two_gangs_do_not_evict_each_other_in_turns():
    engine = engine_with([host(name) for name in "ab"], preempting())
    form(engine, "one", 2)
    form(engine, "two", 2)
    arrive(engine, *members("one", 2, 4000, priority=5), *members("two", 2, 4000, priority=5))
    front = SimpleFront(engine)
    front.settle(3600 * SECOND)
    assert front.evictions == []
    assert places(engine, "one-0", "one-1", "two-0", "two-1") == ["a", "b", "", ""]


def test_a_gang_evicted_as_one_comes_back_when_there_is_room():
    engine = engine_with([host(name) for name in "ab"], preempting())
    form(engine, "old", 2, disruption="all")
    for name, uid in zip("ab", ("old-0", "old-1"), strict=True):
        runs(engine, name, wants(uid, 4000, 1, gang="old"))
    front = SimpleFront(engine)
    arrive(engine, wants("high", 4000, 5))
    front.settle(10 * SECOND)
    assert sorted(front.evictions) == ["old-0", "old-1"]
    arrive(engine, *members("old", 2, 4000, first=2, priority=1))
    front.settle(20 * SECOND)
    assert places(engine, "old-2", "old-3") == ["", ""]
    leave(engine, "high")
    front.settle(60 * SECOND)
    assert sorted(places(engine, "old-2", "old-3")) == ["a", "b"]
