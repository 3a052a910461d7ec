"""Victims that can run elsewhere: they come first among equals, and move to planned destinations while they run."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from hostler.engine import Engine
from hostler.engine.preemption.destinations import find_destinations
from hostler.engine.state.transaction import Transaction
from hostler.model import (
    Evict,
    EvictFailed,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestLeft,
    GuestTerm,
    HostChanged,
    HostLeft,
    Move,
    Quota,
    QuotasChanged,
    Taint,
    Toleration,
    amounts,
    labels,
)
from tests.engine.engine_twins import content
from tests.engine.fleet import SECOND, arrive, binds, engine_with, host, step
from tests.engine.gang_instances import allowed, app, evicted, nominated, preempting, protect, runs, wants

ANYWHERE = {"move_labels": ()}
TWINS: dict[str, Callable[[Engine], Engine]] = {
    "warm": lambda engine: engine,
    "restored": lambda engine: Engine.restore(engine.checkpoint()),
    "forked": lambda engine: engine.fork(),
}
in_every_twin = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)


def cluster(free: int = 2000, **rules) -> Engine:
    """Return an engine with host ``a``, and host ``b`` with so much room left."""
    engine = engine_with([host("a"), host("b", labels={"disk": "ssd"})], preempting(**rules))
    if free < 4000:
        runs(engine, "b", wants("important", 4000 - free, 50))
    return engine


def moving(free: int = 2000, **rules) -> Engine:
    return cluster(free, movable_first=True, moves=True, **rules)


def decide(engine: Engine, *guests: Guest) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now)


def moves(actions) -> dict[str, str]:
    return {action.uid: action.target for action in actions if isinstance(action, Move)}


def high(cpu: int = 2000, **fields) -> Guest:
    """Return a guest that only host ``a`` may take."""
    return wants("high", cpu, 10, host_name="a", **fields)


def land(engine: Engine, name: str, target: str, **fields) -> None:
    """Let the replacement of a moving guest arrive at its destination."""
    source = engine.view.guest(name)
    engine.apply(GuestArrived(guest=msgspec.structs.replace(source, uid=f"{name}.2", host=target, replaces=name)))


# -- the order of victims ---------------------------------------------------------------------------------------------


def test_guest_that_can_run_elsewhere_is_evicted_before_a_pinned_one():
    for rules, victim in (({"movable_first": True}, ["free"]), ({}, ["pinned"])):
        engine = cluster(**rules)
        runs(engine, "a", wants("free", 2000, started=1), wants("pinned", 2000, started=2, is_pinned=True))
        assert evicted(decide(engine, high())) == victim


def test_guest_without_room_elsewhere_is_spared_like_a_pinned_one():
    for third, victim in ({}, "third"), ({"is_pinned": True}, "small"):
        engine = cluster(free=1000, movable_first=True)
        runs(engine, "a", wants("large", 2000, started=2), wants("small", 1000, started=1))
        runs(engine, "a", wants("third", 1000, started=3, **third))
        assert evicted(decide(engine, high(1000))) == [victim]


def test_priority_counts_before_the_ability_to_run_elsewhere():
    engine = cluster(movable_first=True)
    runs(engine, "a", wants("free", 2000, 5), wants("pinned", 2000, is_pinned=True))
    assert evicted(decide(engine, high())) == ["pinned"]


def test_longest_running_is_spared_among_guests_that_can_run_elsewhere():
    engine = cluster(movable_first=True)
    runs(engine, "a", wants("old", 2000, started=1), wants("young", 2000, started=2))
    assert evicted(decide(engine, high())) == ["young"]


def test_host_whose_victim_can_run_elsewhere_is_preferred():
    for rules, victim in (({"movable_first": True}, ["free"]), ({}, ["pinned"])):
        engine = engine_with([host("a"), host("b"), host("c", taints=(Taint("old", ""),))], preempting(**rules))
        runs(engine, "a", wants("pinned", 4000, is_pinned=True))
        runs(engine, "b", wants("free", 4000, tolerations=(Toleration("old", "Exists"),)))
        assert evicted(decide(engine, wants("high", 4000, 10))) == victim


def test_broken_budgets_count_before_everything():
    engine = cluster(movable_first=True)
    runs(engine, "a", wants("free", 2000, app="web"), wants("pinned", 2000, is_pinned=True))
    protect(engine, "web", 0)
    assert evicted(decide(engine, high())) == ["pinned"]


# -- a move -----------------------------------------------------------------------------------------------------------


@in_every_twin
def test_victim_moves_to_room_that_is_held_for_it(twin):
    engine = moving()
    runs(engine, "a", wants("free", 2000, **ANYWHERE), wants("pinned", 2000, is_pinned=True))
    actions = decide(engine, high())
    assert moves(actions) == {"free": "b"}
    assert evicted(actions) == []
    assert nominated(actions)["high"] == "a"
    engine = twin(engine)
    thief = wants("thief", 2000, 60, host_name="b", may_preempt=False)
    assert binds(decide(engine, thief)) == {}, "its room is held against all"
    land(engine, "free", "b")
    engine = twin(engine)
    assert binds(step(engine, SECOND)) == {}
    engine.apply(GuestLeft(uid="free"))
    engine = twin(engine)
    assert binds(step(engine, 2 * SECOND)) == {"high": "a"}
    assert engine.view.records["free.2"].host == "b"
    assert dict(engine.view.moves) == {}
    assert content(engine) == content(twin(engine))


def test_two_victims_never_get_the_same_room():
    engine = moving()
    runs(engine, "a", wants("first", 2000, **ANYWHERE), wants("second", 2000, **ANYWHERE))
    actions = decide(engine, high(4000))
    assert len(moves(actions)) == 1
    assert len(evicted(actions)) == 1
    engine = moving(free=4000)
    runs(engine, "a", wants("first", 2000, **ANYWHERE), wants("second", 2000, **ANYWHERE))
    assert moves(decide(engine, high(4000))) == {"first": "b", "second": "b"}


def test_guests_move_only_between_hosts_with_their_labels():
    live = labels({"disk": "ssd"})
    engine = moving()
    runs(engine, "a", wants("free", 2000, move_labels=live), wants("pinned", 2000, is_pinned=True))
    assert evicted(decide(engine, high())) == ["free"], "host a cannot send it"
    engine = moving()
    engine.apply(HostChanged(host=host("a", labels={"disk": "ssd"})))
    runs(engine, "a", wants("free", 2000, move_labels=live), wants("pinned", 2000, is_pinned=True))
    assert moves(decide(engine, high())) == {"free": "b"}


def test_guest_that_cannot_move_is_ended_where_others_move():
    engine = moving(free=4000)
    runs(engine, "a", wants("free", 2000, **ANYWHERE), wants("stops", 2000))
    actions = decide(engine, high(4000))
    assert (moves(actions), evicted(actions)) == ({"free": "b"}, ["stops"])


def test_destination_respects_the_preemptor_on_its_way():
    """The preemptor's anti-affinity counts in the plan: the victim may not go where it will not be allowed."""
    apart = (GuestTerm("zone", app("low")),)
    hosts = [host("a", labels={"zone": "x"}), host("b", labels={"zone": "x"}), host("c", labels={"zone": "y"})]
    engine = engine_with(hosts, preempting(movable_first=True, moves=True))
    runs(engine, "a", wants("low", 4000, app="low", **ANYWHERE))
    actions = decide(engine, high(4000, anti_affinity=apart))
    assert moves(actions) == {"low": "c"}


def test_guest_that_leaves_anyway_does_not_move():
    engine = moving(free=4000)
    runs(engine, "a", wants("leaving", 2000, is_leaving=True, **ANYWHERE), wants("free", 2000, **ANYWHERE))
    actions = decide(engine, high(4000))
    assert (moves(actions), evicted(actions)) == ({"free": "b"}, [])


def test_move_counts_against_its_budget():
    engine = moving()
    runs(engine, "a", wants("free", 4000, app="web", **ANYWHERE))
    engine.apply(GuestLeft(uid="important"))
    protect(engine, "web", 1)
    assert moves(decide(engine, high())) == {"free": "b"}
    assert allowed(engine, "web") == 0


def test_quota_of_its_tenant_keeps_no_victim_from_moving():
    engine = moving()
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 2})),)))
    runs(engine, "a", wants("free", 2000, tenant="t", **ANYWHERE), wants("pinned", 2000, is_pinned=True))
    assert moves(decide(engine, high())) == {"free": "b"}


def test_neither_end_of_a_move_is_evicted_for_another_guest():
    engine = moving()
    runs(engine, "a", wants("free", 2000, **ANYWHERE), wants("pinned", 2000, 50))
    decide(engine, high())
    land(engine, "free", "b")
    actions = decide(engine, wants("other", 2000, 30, host_name="b"))
    assert (moves(actions), evicted(actions)) == ({}, [])
    engine.apply(GuestLeft(uid="free"))
    step(engine, engine.now)
    assert evicted(decide(engine, wants("third", 2000, 30, host_name="b"))) == ["free.2"]


def test_planner_says_where_all_guests_of_a_host_could_go_together():
    """As a drain asks it: without a preemptor. Nothing of the plan stays."""
    engine = engine_with([host("a", cpu=8000), host("b", cpu=2000), host("c", cpu=2000)], preempting())
    runs(engine, "a", wants("first", 2000, **ANYWHERE), wants("second", 2000, 5, **ANYWHERE), wants("stays", 1000))
    runs(engine, "a", wants("third", 2000, **ANYWHERE))
    before, state, names = content(engine), engine.state, ("first", "second", "stays", "third")
    with Transaction(state) as transaction:
        for name in names:
            transaction.unbook(name)
        found = find_destinations(state, transaction, names, {state.cluster.row_of["a"]})
    assert found == {"second": "b", "first": "c"}, "the more important one chooses first, and no room is given twice"
    assert content(engine) == before


# -- a move that fails ------------------------------------------------------------------------------------------------


def failing(engine: Engine, how: str) -> None:
    match how:
        case "cannot begin":
            engine.apply(EvictFailed(uid="free", reason="its host is silent"))
        case "is given up":
            land(engine, "free", "b")
            engine.apply(GuestLeft(uid="free.2"))
        case "destination left":
            engine.apply(HostLeft(name="b"))


@in_every_twin
@pytest.mark.parametrize("how", ["cannot begin", "is given up", "destination left"])
def test_victim_whose_move_fails_is_evicted_instead(how, twin):
    engine = moving()
    runs(engine, "a", wants("free", 2000, **ANYWHERE), wants("pinned", 2000, is_pinned=True))
    assert moves(decide(engine, high())) == {"free": "b"}
    engine = twin(engine)
    failing(engine, how)
    engine = twin(engine)
    assert engine.next_due() == engine.now
    [action] = step(engine, SECOND)
    assert isinstance(action, Evict)
    assert (action.uid, action.host, action.preemptor, action.is_preemption) == ("free", "a", "high", True)
    engine.apply(GuestLeft(uid="free"))
    assert binds(step(engine, 2 * SECOND)) == {"high": "a"}
    assert content(engine) == content(TWINS["restored"](engine))


def test_room_of_a_failed_move_is_free_again():
    engine = moving()
    runs(engine, "a", wants("free", 2000, **ANYWHERE), wants("pinned", 2000, is_pinned=True))
    decide(engine, high())
    failing(engine, "cannot begin")
    assert binds(decide(engine, wants("small", 2000, 0, host_name="b"))) == {"small": "b"}


def test_nobody_is_evicted_when_a_move_fails_for_a_guest_that_is_gone():
    engine = moving()
    runs(engine, "a", wants("free", 2000, app="web", **ANYWHERE), wants("pinned", 2000, is_pinned=True))
    protect(engine, "web", 1)
    decide(engine, high())
    engine.apply(GuestLeft(uid="high"))
    failing(engine, "is given up")
    assert step(engine, SECOND) == []
    assert (dict(engine.view.evicting), allowed(engine, "web")) == ({}, 1)


def test_preemptor_tries_another_host_when_the_eviction_fails_too():
    engine = moving()
    runs(engine, "a", wants("free", 2000, **ANYWHERE), wants("pinned", 2000, is_pinned=True))
    decide(engine, high())
    failing(engine, "cannot begin")
    step(engine, SECOND)
    engine.apply(EvictFailed(uid="free", reason="not allowed"))
    assert "high" not in engine.view.nominations


@in_every_twin
def test_held_room_follows_a_victim_that_changes_its_size(twin):
    engine = moving(free=3000)
    runs(engine, "a", wants("free", 2000, **ANYWHERE), wants("pinned", 2000, is_pinned=True))
    decide(engine, high())
    engine.apply(GuestChanged(guest=wants("free", 1000, **ANYWHERE, host="a", version=2)))
    engine = twin(engine)
    assert binds(decide(engine, wants("small", 2000, 0, host_name="b"))) == {"small": "b"}


def test_explanation_names_the_victims_that_the_plan_would_take():
    engine = moving()
    runs(engine, "a", wants("free", 2000, started=1, **ANYWHERE), wants("pinned", 2000, started=2, is_pinned=True))
    arrive(engine, high(may_preempt=True))
    assert engine.explain("high").eviction.victims == ("free",)
