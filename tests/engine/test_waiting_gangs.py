"""Gangs that wait, fail and come back: their order, who keeps room meanwhile, failed binds, lost hosts, restarts."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from hostler.engine import Engine
from hostler.model import (
    Bind,
    BindFailed,
    GangLeft,
    GuestArrived,
    GuestBound,
    HostChanged,
    HostJoined,
    HostLeft,
    QueueRules,
    Quota,
    QuotasChanged,
)
from tests.engine.fleet import SECOND, arrive, binds, engine_with, host, states, step
from tests.engine.gang_instances import (
    SimpleFront,
    evicted,
    form,
    held_for,
    leave,
    members,
    places,
    runs,
    wants,
)


def fleet(*cores: int, **fields) -> Engine:
    """Return an engine with hosts a, b, c ... of so many cores, filled by name."""
    names = "abcdefghijklmnopqrstuvwxyz"
    return engine_with([host(names[i], cpu=1000 * n) for i, n in enumerate(cores)], "first_fit", **fields)


def decide_arrivals(engine: Engine, *guests, now: int | None = None) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now if now is None else now)


# -- order ------------------------------------------------------------------------------------------------------------


def test_gangs_and_guests_are_decided_by_priority_then_age():
    engine = fleet(2)
    form(engine, "team", 2)
    arrive(engine, wants("low", 1000), *members("team", 2, 1000, priority=5), wants("high", 1000, 6))
    assert binds(step(engine, 0)) == {"high": "a", "low": "a"}


def test_the_gangs_own_priority_beats_that_of_its_members():
    engine = fleet(2)
    form(engine, "team", 2, priority=9)
    arrive(engine, wants("mid", 1000, 5), *members("team", 2, 1000))
    assert binds(step(engine, 0)) == {"team-0": "a", "team-1": "a"}


def test_gang_without_a_priority_has_the_lowest_of_its_members():
    engine = fleet(2)
    form(engine, "team", 2)
    arrive(engine, wants("mid", 1000, 5), wants("t1", 1000, 9, gang="team"), wants("t2", 1000, 1, gang="team"))
    assert binds(step(engine, 0)) == {"mid": "a"}


def test_of_two_equal_gangs_the_older_goes_first():
    engine = fleet(3)
    form(engine, "young", 2)
    form(engine, "old", 2)
    arrive(engine, *members("old", 1), *members("young", 2), *members("old", 1, 1000, first=1))
    assert sorted(binds(step(engine, 0))) == ["old-0", "old-1"]


def test_two_gangs_that_each_need_more_than_half_of_the_cluster():
    # Scenario 22: exactly one runs, the other holds nothing, no livelock over 100 cycles.
    engine = fleet(4, 4)
    form(engine, "one", 5)
    form(engine, "two", 5)
    arrive(engine, *members("one", 5), *members("two", 5))
    front = SimpleFront(engine)
    for cycle in range(100):
        front.step(cycle * 11 * SECOND)
        running = {uid.split("-")[0] for uid in states(engine) if engine.decision(uid).host}
        assert running == {"one"}
        assert held_for(engine) == {}
        assert front.evictions == []
    leave(engine, *(f"one-{i}" for i in range(5)))
    front.settle(engine.now + 60 * SECOND)
    assert all(places(engine, *(f"two-{i}" for i in range(5))))


@pytest.mark.parametrize("head_of_line", ["skip", "reserve"])
def test_two_gangs_that_each_need_more_than_half_and_wait_for_room(head_of_line):
    engine = fleet(4, 4)
    runs(engine, "a", wants("old", 4000))
    form(engine, "one", 5, head_of_line=head_of_line)
    form(engine, "two", 5, head_of_line=head_of_line)
    arrive(engine, *members("one", 5), *members("two", 5))
    front = SimpleFront(engine)
    for cycle in range(100):
        front.step(cycle * 11 * SECOND)
        assert not any(engine.decision(uid).host for uid in states(engine) if uid != "old")
        kept = {hold.split(":")[1].split("-")[0] for names in held_for(engine).values() for hold in names}
        assert kept == ({"one"} if head_of_line == "reserve" else set())
    leave(engine, "old")
    front.settle(engine.now + 60 * SECOND)
    running = {uid.split("-")[0] for uid in states(engine) if engine.decision(uid).host}
    assert running == {"one"}
    kept = {hold.split(":")[1].split("-")[0] for names in held_for(engine).values() for hold in names}
    assert kept == ({"two"} if head_of_line == "reserve" else set())


# -- head of line -----------------------------------------------------------------------------------------------------


def test_a_big_gang_that_skips_lets_small_guests_pass():
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4)
    decide_arrivals(engine, *members("big", 4))
    assert binds(decide_arrivals(engine, wants("small", 3000))) == {"small": "a"}


@pytest.mark.parametrize(("priority", "passes"), [(0, False), (-1, False), (1, True)])
def test_a_big_gang_that_reserves_keeps_its_room_from_equal_and_lower_ones(priority, passes):
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line="reserve")
    decide_arrivals(engine, *members("big", 4))
    assert held_for(engine) == {"a": [f"nomination:big-{i}" for i in range(3)]}
    assert bool(binds(decide_arrivals(engine, wants("small", 3000, priority)))) is passes


def test_a_gang_that_reserves_is_placed_when_the_rest_is_free():
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line="reserve")
    decide_arrivals(engine, *members("big", 4))
    assert binds(decide_arrivals(engine, wants("small", 1000), now=30 * SECOND)) == {}
    leave(engine, "old")
    assert len(binds(step(engine, 31 * SECOND))) == 4
    assert held_for(engine) == {}


def test_room_freed_while_a_reserving_gang_backs_off_is_held_for_it():
    # "Keeps guests of lower and equal priority from taking what it waits for."
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line="reserve")
    decide_arrivals(engine, *members("big", 4))
    leave(engine, "old")
    assert "small" not in binds(decide_arrivals(engine, wants("small", 1000)))
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert places(engine, *(f"big-{i}" for i in range(4)), "small") == ["a"] * 4 + [""]
    assert held_for(engine) == {}


def test_what_a_gang_reserves_is_kept_by_the_gangs_priority():
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line="reserve", priority=9)
    decide_arrivals(engine, *members("big", 4))
    assert binds(decide_arrivals(engine, wants("small", 3000, 5))) == {}


def test_a_reserving_gang_is_tried_no_earlier_than_it_is_due():
    engine = fleet(4, 1)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 5, head_of_line="reserve")
    decide_arrivals(engine, *members("big", 5))
    engine.apply(QuotasChanged(quotas=()))
    decide_arrivals(engine, wants("other", 0), wants("huge", 99000))
    at = engine.next_due()
    assert at is not None
    assert at <= engine.now or engine.fork().step(at - 1) == []


def test_one_gang_reserves_at_a_time():
    engine = fleet(4, 4)
    runs(engine, "a", wants("old", 2000))
    form(engine, "one", 7, head_of_line="reserve")
    form(engine, "two", 7, head_of_line="reserve")
    decide_arrivals(engine, *members("one", 7), *members("two", 7))
    kept = {name.split("-")[0] for names in held_for(engine).values() for name in names}
    assert kept == {"nomination:one"}


def end_reserving(engine: Engine, how: str) -> None:
    if how == "gang leaves":
        engine.apply(GangLeft(key="default/one"))
    elif how == "members leave":
        leave(engine, *(f"one-{i}" for i in range(4)))
    elif how == "quorum lost":
        leave(engine, "one-0")
    elif how == "skips from now on":
        form(engine, "one", 4, head_of_line="skip")
    else:
        form(engine, "one", 5, head_of_line="reserve")


@pytest.mark.parametrize("how", ["gang leaves", "members leave", "quorum lost", "skips from now on", "needs more"])
def test_a_gang_that_no_longer_waits_keeps_no_room(how):
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "one", 4, head_of_line="reserve")
    decide_arrivals(engine, *members("one", 4))
    end_reserving(engine, how)
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert held_for(engine) == {}
    assert binds(decide_arrivals(engine, wants("small", 3000))) == {"small": "a"}


@pytest.mark.parametrize("how", ["gang leaves", "members leave", "quorum lost"])
def test_the_next_gang_may_reserve_when_the_first_one_no_longer_does(how):
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "one", 4, head_of_line="reserve")
    form(engine, "two", 4, head_of_line="reserve")
    decide_arrivals(engine, *members("one", 4), *members("two", 4))
    end_reserving(engine, how)
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    kept = {name.split("-")[0] for names in held_for(engine).values() for name in names}
    assert kept == {"nomination:two"}


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_member_whose_bind_failed_is_placed_again_and_the_others_stay():
    engine = fleet(8)
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2))
    engine.apply(GuestBound(uid="team-0", host="a"))
    engine.apply(BindFailed(uid="team-1", host="a", reason="no"))
    assert engine.decision("team-1").note == "bind failed: no"
    assert binds(step(engine, SECOND // 2)) == {}
    assert binds(step(engine, 3 * SECOND)) == {"team-1": "a"}
    assert places(engine, "team-0") == ["a"]


def test_binds_that_keep_failing_are_retried_ever_more_slowly():
    engine = fleet(8)
    form(engine, "team", 1)
    arrive(engine, *members("team", 1))
    times: list[int] = []
    for _ in range(20):
        at = engine.next_due()
        assert at is not None
        if binds(step(engine, at)):
            times.append(at)
            engine.apply(BindFailed(uid="team-0", host="a"))
    gaps = [b - a for a, b in pairwise(times)]
    assert len(gaps) >= 5
    assert gaps[0] < 2 * SECOND < gaps[2] < gaps[4] <= 12 * SECOND


def test_all_binds_of_a_gang_that_fail_leave_nothing_behind():
    engine = fleet(8)
    form(engine, "team", 3)
    for uid in binds(decide_arrivals(engine, *members("team", 3))):
        engine.apply(BindFailed(uid=uid, host="a"))
    assert held_for(engine) == {}
    assert binds(decide_arrivals(engine, wants("other", 8000))) == {"other": "a"}
    assert set(engine.state.gangs.broken_since) == set()


def test_a_gang_whose_binds_all_failed_needs_its_whole_minimum_again():
    engine = fleet(8)
    form(engine, "team", 3)
    for uid in binds(decide_arrivals(engine, *members("team", 3))):
        engine.apply(BindFailed(uid=uid, host="a"))
    runs(engine, "a", wants("other", 6000))
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert places(engine, *(f"team-{i}" for i in range(3))) == ["", "", ""]


@pytest.mark.parametrize("how", ["quorum lost", "gang gone"])
def test_a_failed_bind_does_not_queue_a_gang_that_cannot_be_tried(how):
    engine = fleet(8)
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2))
    if how == "quorum lost":
        leave(engine, "team-0")
    else:
        engine.apply(GangLeft(key="default/team"))
    engine.apply(BindFailed(uid="team-1", host="a"))
    assert states(engine)["team-1"] == "gated"
    assert "gang:default/team" not in engine.state.queue.entries


def test_bind_that_fails_after_its_host_left_is_retried_elsewhere():
    # Scenario 13, with a gang.
    engine = fleet(2, 2)
    form(engine, "team", 2)
    assert set(binds(decide_arrivals(engine, *members("team", 2))).values()) == {"a"}
    engine.apply(HostLeft(name="a"))
    assert step(engine, SECOND) == []
    for uid in ("team-0", "team-1"):
        engine.apply(BindFailed(uid=uid, host="a", reason="the host is gone", at=2 * SECOND))
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "team-0", "team-1") == ["b", "b"]


def test_lost_host_parks_members_until_others_take_over():
    engine = fleet(2, 2)
    form(engine, "team", 2)
    front = SimpleFront(engine)
    arrive(engine, *members("team", 2))
    front.step()
    engine.apply(HostLeft(name="a"))
    assert front.step(60 * SECOND) == []
    assert set(states(engine).values()) == {"parked"}
    leave(engine, "team-0", "team-1")
    assert len(binds(decide_arrivals(engine, *members("team", 2, 1000, first=2)))) == 2


def test_member_deleted_while_all_others_are_prepared_releases_them():
    # Scenario 20: below the minimum and none bound, so all are released now.
    engine = fleet(8)
    form(engine, "team", 3)
    arrive(engine, *members("team", 3, 1000, prepare=("disk",)))
    step(engine, 0)
    leave(engine, "team-0")
    step(engine, SECOND)
    assert places(engine, "team-1", "team-2") == ["", ""]


def test_member_deleted_while_others_are_bound_leaves_those():
    # Scenario 20: bound ones follow the policy, here keep.
    engine = fleet(8)
    form(engine, "team", 3)
    front = SimpleFront(engine)
    arrive(engine, *members("team", 3))
    front.step()
    leave(engine, "team-0")
    front.settle(3600 * SECOND)
    assert front.evictions == []
    assert places(engine, "team-1", "team-2") == ["a", "a"]


# -- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restart_with_a_half_bound_gang_finishes_the_rest():
    # Scenario 19: bound members count, no bind is handed out twice.
    engine = fleet(4)
    form(engine, "team", 4)
    found = binds(decide_arrivals(engine, *members("team", 4)))
    engine.apply(GuestBound(uid="team-0", host=found["team-0"]))
    engine.apply(GuestBound(uid="team-1", host=found["team-1"]))
    again = Engine.restore(engine.checkpoint())
    assert step(again, SECOND) == []
    again.apply(BindFailed(uid="team-2", host="a", at=SECOND))
    again.apply(GuestBound(uid="team-3", host="a", at=SECOND))
    front = SimpleFront(again)
    assert binds(front.settle(30 * SECOND)) == {"team-2": "a"}
    assert set(states(again).values()) == {"bound"}


def test_a_gang_rebuilt_from_what_runs_finishes_the_rest():
    # Scenario 19 without a checkpoint: members arrive as the front finds them.
    engine = fleet(4)
    form(engine, "team", 4)
    for i in range(4):
        there = "a" if i < 2 else ""
        engine.apply(GuestArrived(guest=wants(f"team-{i}", 1000, gang="team", host=there)))
    assert binds(step(engine, 0)) == {"team-2": "a", "team-3": "a"}


def test_gang_rebuilt_from_running_members_holds_nothing_for_the_rest():
    engine = fleet(3)
    form(engine, "team", 4)
    for i in range(4):
        there = "a" if i < 2 else ""
        engine.apply(GuestArrived(guest=wants(f"team-{i}", 1000, gang="team", host=there)))
    assert binds(step(engine, 0)) == {}
    assert binds(decide_arrivals(engine, wants("other", 1000))) == {"other": "a"}


@pytest.mark.parametrize("head_of_line", ["skip", "reserve"])
def test_a_waiting_gang_survives_a_restart(head_of_line):
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line=head_of_line)
    decide_arrivals(engine, *members("big", 4))
    again = Engine.restore(engine.checkpoint())
    assert again.checkpoint() == engine.checkpoint()
    assert held_for(again) == held_for(engine)
    for each in (engine, again):
        leave(each, "old")
    for now in (SECOND, 5 * SECOND, 60 * SECOND):
        assert step(again, now) == step(engine, now)
    assert again.checkpoint() == engine.checkpoint()
    assert len([uid for uid in states(again) if again.decision(uid).host]) == 4


def test_a_fork_places_a_gang_without_disturbing_its_origin():
    engine = fleet(4)
    form(engine, "team", 4)
    arrive(engine, *members("team", 4))
    fork = engine.fork()
    before = engine.checkpoint()
    assert len(binds(step(fork, 0))) == 4
    assert engine.checkpoint() == before
    assert len(binds(step(engine, 0))) == 4
    assert evicted(step(engine, SECOND)) == []


def test_gang_over_quota_is_explained_before_any_decision():
    engine = fleet(4)
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=(("cpu", 0),)),)))
    form(engine, "team", 2)
    arrive(engine, *members("team", 2, tenant="t"))
    explained = engine.explain("team-0")
    assert explained.gang is not None
    assert explained.gang.would_place == 0
    assert explained.eviction is not None
    assert explained.eviction.why_not == "its tenant's quota has no room for it"


# -- who is tried again ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cordoned", [False, True], ids=["room", "a cordoned host"])
def test_a_gang_is_tried_again_only_when_there_may_be_room_for_it(cordoned):
    engine = engine_with([host("a"), host("b")], "spread", rules=QueueRules(flush_after_ns=10**9 * SECOND))
    runs(engine, "a", wants("one", 3000), wants("two", 1000))
    runs(engine, "b", wants("three", 4000))
    form(engine, "team", 2)
    arrive(engine, *members("team", 2, 2000))
    step(engine, 0)
    tries = engine.decision("team-0").attempt
    leave(engine, "two")
    step(engine, 60 * SECOND)
    assert engine.decision("team-0").attempt == tries, "one core was no reason to try"
    if cordoned:
        engine.apply(HostChanged(host=host("b", cordoned=True)))
        leave(engine, "three")
        step(engine, 120 * SECOND)
        assert engine.decision("team-0").attempt == tries, "a cordoned host was no reason to try"
        engine.apply(HostChanged(host=host("b")))
    else:
        leave(engine, "three")
    assert sorted(binds(step(engine, 180 * SECOND))) == ["team-0", "team-1"]


def test_a_gang_is_tried_again_when_only_the_room_of_a_rack_is_enough():
    hosts = [host(name, labels={"rack": rack}) for name, rack in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2"))]
    engine = engine_with(hosts, "spread", rules=QueueRules(flush_after_ns=10**9 * SECOND))
    for name in "abcd":
        runs(engine, name, wants(f"on-{name}", 4000))
    form(engine, "team", 2, topology="rack")
    arrive(engine, *members("team", 2, 4000))
    step(engine, 0)
    tries = engine.decision("team-0").attempt
    leave(engine, "on-a", "on-c")
    step(engine, 60 * SECOND)
    assert engine.decision("team-0").attempt == tries, "room in two racks was no reason to try"
    leave(engine, "on-d")
    assert set(binds(step(engine, 120 * SECOND)).values()) == {"c", "d"}


NO_FLUSH = QueueRules(flush_after_ns=10**9 * SECOND)


def settled(engine: Engine) -> None:
    """Step whenever it is worth while, until nothing is due but the flush of those who wait in vain."""
    for _ in range(400):
        due = engine.next_due()
        if due is None or due >= NO_FLUSH.flush_after_ns:
            return
        for action in step(engine, max(due, engine.now)):
            if isinstance(action, Bind):
                engine.apply(GuestBound(uid=action.uid, host=action.host))
    raise AssertionError("it does not come to rest")


def happen(engine: Engine, rng: Random, number: int) -> None:
    """Let something happen that may make room for a guest, or take it."""
    kind = rng.choice(["gang", "gang", "guest", "leave", "leave", "leave", "cordon", "host"])
    running = [uid for uid in engine.guests() if engine.decision(uid).host]
    if kind == "gang":
        size = rng.randint(2, 3)
        form(engine, f"g{number}", size, topology=rng.choice(["", "rack"]))
        arrive(engine, *members(f"g{number}", size, 1000 * rng.randint(1, 3), priority=rng.choice([0, 5])))
    elif kind == "guest":
        arrive(engine, wants(f"s{number}", 1000 * rng.randint(1, 4)))
    elif kind == "leave" and running:
        leave(engine, rng.choice(running))
    elif kind in ("cordon", "host"):
        name = rng.choice("abcde")
        labels = {"rack": "1" if name in "ab" else "2"}
        engine.apply(HostJoined(host=host(name, labels=labels, cordoned=kind == "cordon" and rng.random() < 0.5)))


@pytest.mark.parametrize("policy", ["spread", "pack"])
@pytest.mark.parametrize("seed", range(20))
def test_no_gang_waits_for_which_there_is_room(seed, policy):
    rng = Random(seed)
    engine = engine_with([], policy, rules=NO_FLUSH)
    for number in range(40):
        happen(engine, rng, number)
        settled(engine)
        for key in engine.state.gangs.gangs:
            waiting = [uid for uid in engine.state.gangs.pending(key) if not engine.state.gangs.why_not_ready(key)]
            if waiting:
                advice = engine.explain(waiting[0]).gang
                assert advice is not None
                assert advice.placed + advice.would_place < advice.min_count, f"{key} could run at event {number}"
