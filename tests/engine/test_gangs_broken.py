"""What happens to a running gang that lost members: keep, prefer_repair, release_after."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.model import BindFailed, EvictFailed, GangLeft, GuestChanged, HostJoined
from tests.engine.fleet import SECOND, arrive, binds, due, engine_with, host, step
from tests.engine.gang_instances import SimpleFront, evicted, form, leave, members, places, runs, wants


def running(count: int, min_count: int, /, cores: int = 8, **fields) -> SimpleFront:
    """Return a front with a gang that runs."""
    engine = engine_with([host("a", cpu=1000 * cores)], "first_fit")
    form(engine, "team", min_count, **fields)
    arrive(engine, *members("team", count))
    front = SimpleFront(engine)
    assert len(binds(front.step())) == count
    return front


# -- keep -------------------------------------------------------------------------------------------------------------


def test_a_gang_that_is_kept_runs_on_with_fewer_members():
    front = running(3, 3, when_broken="keep")
    leave(front.engine, "team-0")
    assert front.settle(3600 * SECOND) == []
    assert places(front.engine, "team-1", "team-2") == ["a", "a"]


def test_a_broken_gang_takes_a_replacement_alone():
    front = running(3, 3, when_broken="keep")
    leave(front.engine, "team-0")
    arrive(front.engine, wants("team-3", 1000, gang="team"))
    assert binds(front.settle(SECOND)) == {"team-3": "a"}


def test_a_broken_gang_that_is_kept_waits_its_turn_by_age():
    front = running(2, 2, cores=2, when_broken="keep")
    engine = front.engine
    arrive(engine, wants("older", 1000))
    front.step()
    front.step(30 * SECOND)
    leave(engine, "team-0")
    arrive(engine, wants("team-2", 1000, gang="team"))
    front.settle(60 * SECOND)
    assert places(engine, "older", "team-2") == ["a", ""]


# -- prefer_repair ----------------------------------------------------------------------------------------------------


def test_a_broken_gang_is_repaired_before_others_of_its_priority():
    front = running(2, 2, cores=2, when_broken="prefer_repair")
    engine = front.engine
    arrive(engine, wants("older", 1000))
    front.step()
    front.step(30 * SECOND)
    leave(engine, "team-0")
    arrive(engine, wants("team-2", 1000, gang="team"))
    front.settle(60 * SECOND)
    assert places(engine, "older", "team-2") == ["", "a"]


def test_a_broken_gang_is_not_repaired_before_guests_of_higher_priority():
    front = running(2, 2, cores=2, when_broken="prefer_repair")
    engine = front.engine
    arrive(engine, wants("higher", 1000, 1))
    front.step()
    front.step(30 * SECOND)
    leave(engine, "team-0")
    arrive(engine, wants("team-2", 1000, gang="team"))
    front.settle(60 * SECOND)
    assert places(engine, "higher", "team-2") == ["a", ""]


def test_a_whole_gang_has_no_advantage():
    front = running(2, 2, cores=3, when_broken="prefer_repair")
    engine = front.engine
    arrive(engine, wants("older", 1000), wants("team-2", 1000, gang="team"))
    front.settle(30 * SECOND)
    assert places(engine, "older", "team-2") == ["a", ""]


# -- release_after ----------------------------------------------------------------------------------------------------


def test_a_gang_that_stays_broken_is_released():
    front = running(3, 3, when_broken="release_after", release_after_ns=60 * SECOND)
    engine = front.engine
    front.step(SECOND)
    leave(engine, "team-0")
    assert due(engine) == 61 * SECOND
    assert front.step(61 * SECOND - 1) == []
    actions = front.step(61 * SECOND)
    assert sorted(evicted(actions)) == ["team-1", "team-2"]
    assert {a.reason for a in actions} == {"gang default/team stayed below its minimum"}
    assert front.settle(3600 * SECOND) == []


def test_a_gang_that_is_repaired_in_time_is_not_released():
    front = running(3, 3, when_broken="release_after", release_after_ns=60 * SECOND)
    leave(front.engine, "team-0")
    front.step(30 * SECOND)
    arrive(front.engine, wants("team-3", 1000, gang="team"))
    front.settle(3600 * SECOND)
    assert front.evictions == []


def test_the_time_counts_from_when_the_gang_broke_last():
    front = running(2, 2, when_broken="release_after", release_after_ns=60 * SECOND)
    engine = front.engine
    leave(engine, "team-0")
    front.step(30 * SECOND)
    arrive(engine, wants("team-2", 1000, gang="team"))
    front.step(30 * SECOND)
    front.step(50 * SECOND)
    leave(engine, "team-2")
    assert front.step(100 * SECOND) == []
    assert evicted(front.step(110 * SECOND)) == ["team-1"]


def test_losing_more_members_does_not_prolong_the_time():
    front = running(3, 3, when_broken="release_after", release_after_ns=60 * SECOND)
    leave(front.engine, "team-0")
    front.step(50 * SECOND)
    leave(front.engine, "team-1")
    assert evicted(front.step(60 * SECOND)) == ["team-2"]


def test_losing_members_beyond_the_minimum_breaks_nothing():
    front = running(4, 3, when_broken="release_after", release_after_ns=60 * SECOND)
    leave(front.engine, "team-0")
    assert front.settle(3600 * SECOND) == []


def end(front: SimpleFront, name: str) -> None:
    """Let the end of a running member be decided; it stays until its host lets it go."""
    front.engine.apply(GuestChanged(guest=wants(name, 1000, gang="team", host="a", is_leaving=True, version=2)))


def test_ending_member_does_not_count_however_long_it_takes():
    front = running(3, 2, when_broken="release_after", release_after_ns=60 * SECOND)
    end(front, "team-0")
    assert front.settle(3600 * SECOND) == []
    leave(front.engine, "team-1")
    assert evicted(front.settle(3700 * SECOND)) == ["team-2"]


def test_the_time_counts_from_when_the_end_of_a_member_is_decided():
    front = running(2, 2, when_broken="release_after", release_after_ns=60 * SECOND)
    front.step(SECOND)
    end(front, "team-0")
    assert due(front.engine) == 61 * SECOND
    front.step(30 * SECOND)
    leave(front.engine, "team-0")
    assert evicted(front.step(61 * SECOND)) == ["team-1"]


def test_a_gang_all_of_whose_members_are_about_to_go_is_not_broken():
    front = running(2, 2, when_broken="release_after", release_after_ns=60 * SECOND)
    end(front, "team-0")
    end(front, "team-1")
    assert front.settle(3600 * SECOND) == []


def test_part_of_a_gang_left_running_is_released_too():
    engine = engine_with([host("a", cpu=8000)], "first_fit")
    form(engine, "team", 3, when_broken="release_after", release_after_ns=60 * SECOND)
    runs(engine, "a", wants("team-0", 1000, gang="team"))
    front = SimpleFront(engine)
    assert front.step(0) == []
    assert evicted(front.step(60 * SECOND)) == ["team-0"]


def test_a_gang_that_broke_before_it_was_told_to_release_is_released_too():
    front = running(3, 3, when_broken="keep")
    leave(front.engine, "team-0")
    front.step(10 * SECOND)
    form(front.engine, "team", 3, when_broken="release_after", release_after_ns=60 * SECOND)
    front.settle(600 * SECOND)
    assert sorted(front.evictions) == ["team-1", "team-2"]


@pytest.mark.parametrize(("after", "when"), [(20, 20), (120, 120)])
def test_another_time_counts_from_now_on(after, when):
    front = running(2, 2, when_broken="release_after", release_after_ns=60 * SECOND)
    leave(front.engine, "team-0")
    front.step(10 * SECOND)
    form(front.engine, "team", 2, when_broken="release_after", release_after_ns=after * SECOND)
    front.settle(when * SECOND - 1)
    assert front.evictions == []
    front.settle(when * SECOND)
    assert front.evictions == ["team-1"]


def test_a_gang_told_to_keep_after_it_broke_is_not_released():
    front = running(2, 2, when_broken="release_after", release_after_ns=60 * SECOND)
    leave(front.engine, "team-0")
    form(front.engine, "team", 2, when_broken="keep")
    assert front.settle(3600 * SECOND) == []


def test_a_lowered_minimum_repairs_a_gang():
    front = running(3, 3, when_broken="release_after", release_after_ns=60 * SECOND)
    leave(front.engine, "team-0")
    form(front.engine, "team", 2, when_broken="release_after", release_after_ns=60 * SECOND)
    assert front.settle(3600 * SECOND) == []


def test_a_gang_that_is_gone_is_not_released():
    front = running(2, 2, when_broken="release_after", release_after_ns=60 * SECOND)
    leave(front.engine, "team-0")
    front.engine.apply(GangLeft(key="default/team"))
    assert front.settle(3600 * SECOND) == []


def test_a_failed_bind_breaks_a_gang_as_well():
    engine = engine_with([host("a", cpu=2000)], "first_fit")
    form(engine, "team", 2, when_broken="release_after", release_after_ns=60 * SECOND)
    arrive(engine, *members("team", 2))
    step(engine, 0)
    engine.apply(BindFailed(uid="team-1", host="a"))
    runs(engine, "a", wants("thief", 1000))
    front = SimpleFront(engine)
    front.settle(59 * SECOND)
    assert front.evictions == []
    front.settle(60 * SECOND)
    assert front.evictions == ["team-0"]


def test_a_release_that_fails_is_tried_again():
    # Invariant I3: no gang is left below its minimum for longer than its release time.
    front = running(2, 2, when_broken="release_after", release_after_ns=60 * SECOND)
    front.evicts = False
    leave(front.engine, "team-0")
    front.settle(60 * SECOND)
    front.engine.apply(EvictFailed(uid="team-1"))
    front.evicts = True
    front.settle(600 * SECOND)
    assert front.evictions == ["team-1", "team-1"]


def test_a_released_gang_may_come_back_whole():
    front = running(2, 2, cores=2, when_broken="release_after", release_after_ns=60 * SECOND)
    engine = front.engine
    leave(engine, "team-0")
    runs(engine, "a", wants("thief", 1000))
    arrive(engine, wants("team-2", 1000, gang="team"))
    front.settle(120 * SECOND)
    assert front.evictions == ["team-1"]
    arrive(engine, wants("team-3", 1000, gang="team"))
    engine.apply(HostJoined(host=host("b", cpu=1000)))
    front.settle(240 * SECOND)
    assert sorted(places(engine, "team-2", "team-3")) == ["a", "b"]


def test_the_clock_of_a_broken_gang_survives_a_restart():
    front = running(3, 3, when_broken="release_after", release_after_ns=60 * SECOND)
    leave(front.engine, "team-0")
    again = Engine.restore(front.engine.checkpoint())
    assert due(again) == due(front.engine) == 60 * SECOND
    assert step(again, 60 * SECOND) == front.engine.step(60 * SECOND)
