"""Preemption: who is evicted where, and that nobody is evicted otherwise.

The order of victims and of hosts is kube-scheduler's (kubernetes/kubernetes pkg/scheduler/framework/preemption).
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from hostler.engine import Engine
from hostler.model import (
    Bind,
    Defer,
    Evict,
    GuestLeft,
    GuestTerm,
    HostChanged,
    HostPort,
    Nominate,
    PolicyChanged,
    Spread,
    Taint,
    Toleration,
    labels,
)
from tests.engine.fleet import SECOND, arrive, batch, binds, engine_with, host, policy, reasons, step
from tests.engine.gang_instances import (
    SimpleFront,
    app,
    evicted,
    form,
    leave,
    nominated,
    places,
    preempting,
    protect,
    runs,
    wants,
)

LOWEST = -(2**31)  # of a priority, in Kubernetes


def full(*hosts: str, **rules) -> Engine:
    """Return an engine with hosts of four cores that preempts."""
    return engine_with([host(name) for name in hosts], preempting(**rules))


def decide_arrivals(engine: Engine, *guests) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now)


# -- a preemption -----------------------------------------------------------------------------------------------------


def test_guest_that_fits_nowhere_evicts_one_of_lower_priority():
    engine = full("a")
    runs(engine, "a", wants("low", 4000))
    actions = decide_arrivals(engine, wants("high", 4000, 10))
    assert [type(a) for a in actions] == [Defer, Nominate, Evict]
    assert (actions[1].uid, actions[1].host, actions[1].victims) == ("high", "a", ("low",))
    assert (actions[2].uid, actions[2].host, actions[2].preemptor) == ("low", "a", "high")
    assert actions[2].reason == "preempted by high"
    assert (actions[2].is_preemption, actions[2].is_reclaim) == (True, False)
    assert engine.decision("high").note == "preempts 1 on a"
    assert step(engine, SECOND) == []
    engine.apply(GuestLeft(uid="low", at=2 * SECOND))
    assert binds(step(engine, 2 * SECOND)) == {"high": "a"}
    assert engine.next_due() is None


def test_nobody_is_evicted_for_a_guest_that_fits_somewhere():
    engine = full("a", "b")
    runs(engine, "a", wants("low", 4000))
    assert binds(decide_arrivals(engine, wants("high", 4000, 10))) == {"high": "b"}


@pytest.mark.parametrize("priority", [10, 11])
def test_guests_of_equal_or_higher_priority_are_never_evicted(priority):
    engine = full("a")
    runs(engine, "a", wants("other", 4000, priority))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []
    assert engine.decision("high").note == "no eviction helps"


def test_a_policy_without_preemption_evicts_nobody():
    engine = engine_with([host("a")], "first_fit")
    runs(engine, "a", wants("low", 4000))
    assert [type(a) for a in decide_arrivals(engine, wants("high", 4000, 10))] == [Defer]


def test_guest_that_may_not_preempt_is_first_in_line_and_evicts_none():
    # Scenario 28: preemption policy Never.
    engine = full("a")
    runs(engine, "a", wants("low", 4000))
    arrive(engine, wants("polite", 4000, 10, may_preempt=False), wants("small", 4000, 5))
    actions = step(engine, 0)
    assert [a.uid for a in actions if isinstance(a, Defer)] == ["polite", "small"]
    assert nominated(actions) == {"small": "a"}
    assert engine.decision("polite").note == ""


def test_a_guest_that_may_not_preempt_does_not_stand_in_the_way_of_others():
    engine = full("a", "b")
    runs(engine, "a", wants("low", 4000))
    runs(engine, "b", wants("half", 2000))
    arrive(engine, wants("polite", 4000, 10, may_preempt=False), wants("small", 2000))
    assert binds(step(engine, 0)) == {"small": "b"}


def test_a_guest_too_large_for_any_host_evicts_nobody():
    engine = full("a", "b")
    runs(engine, "a", wants("low", 4000))
    assert [type(a) for a in decide_arrivals(engine, wants("huge", 5000, 10))] == [Defer]
    assert engine.decision("huge").note == "no eviction helps"


@pytest.mark.parametrize(
    "excluded",
    [
        pytest.param({"cordoned": True}, id="cordoned"),
        pytest.param({"taints": (Taint("t"),)}, id="taint"),
        pytest.param({"labels": {"zone": "other"}}, id="selector"),
    ],
)
def test_nobody_is_evicted_where_no_eviction_can_help(excluded):
    engine = engine_with([host("a", **{"labels": {"zone": "own"}} | excluded)], preempting())
    runs(engine, "a", wants("low", 4000))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10, selector={"zone": "own"}))) == []


def test_a_named_host_is_the_only_one_where_guests_are_evicted():
    engine = full("a", "b")
    runs(engine, "a", wants("cheap", 4000))
    runs(engine, "b", wants("dear", 4000, 9))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10, host_name="b"))) == ["dear"]


def test_a_tolerated_taint_is_no_obstacle_to_evicting():
    engine = engine_with([host("a", taints=(Taint("t"),))], preempting())
    runs(engine, "a", wants("low", 4000))
    actions = decide_arrivals(engine, wants("high", 4000, 10, tolerations=(Toleration("t", "Exists"),)))
    assert evicted(actions) == ["low"]


def test_a_guest_that_stands_apart_evicts_the_one_it_must_not_meet():
    engine = engine_with([host("a", labels={"host": "a"})], preempting())
    runs(engine, "a", wants("web", 1000, app="web"), wants("other", 1000, app="db"))
    shy = wants("shy", 1000, 10, anti_affinity=(GuestTerm("host", app("web")),))
    assert evicted(decide_arrivals(engine, shy)) == ["web"]


def test_a_guest_that_another_one_keeps_away_evicts_that_one():
    engine = engine_with([host("a", labels={"host": "a"})], preempting())
    runs(engine, "a", wants("shy", 1000, app="db", anti_affinity=(GuestTerm("host", app("web")),)))
    assert evicted(decide_arrivals(engine, wants("web", 1000, 10, app="web"))) == ["shy"]


def test_a_guest_evicts_the_one_that_has_its_port():
    engine = full("a")
    runs(engine, "a", wants("low", 1000, ports=(HostPort(80),)), wants("else", 1000, ports=(HostPort(81),)))
    assert evicted(decide_arrivals(engine, wants("high", 1000, 10, ports=(HostPort(80),)))) == ["low"]


def test_a_guest_evicts_to_keep_an_even_spread():
    hosts = [host(name, labels={"zone": name}) for name in ("a", "b")]
    engine = engine_with(hosts, preempting())
    runs(engine, "a", wants("one", 1000, app="web"), wants("old", 1000, app="db"))
    runs(engine, "b", wants("big", 4000, 11))
    even = wants("even", 1000, 10, app="web", spread=(Spread("zone", 1, app("web")),))
    assert evicted(decide_arrivals(engine, even)) == ["one"]


def test_missing_affinity_is_nothing_that_evictions_cure():
    engine = engine_with([host("a", labels={"zone": "a"})], preempting())
    runs(engine, "a", wants("low", 1000))
    lonely = wants("lonely", 1000, 10, affinity=(GuestTerm("zone", app("web")),))
    assert evicted(decide_arrivals(engine, lonely)) == []


def test_devices_are_freed_by_evicting_who_has_them():
    engine = engine_with([host("a", gpus=2)], preempting())
    runs(engine, "a", wants("idle", 1000), wants("gpu", 0, gpu=(2, 1000)))
    assert evicted(decide_arrivals(engine, wants("high", 0, 10, gpu=(1, 1000)))) == ["gpu"]


def test_nobody_is_evicted_for_devices_that_a_host_does_not_have():
    engine = engine_with([host("a", gpus=1)], preempting())
    runs(engine, "a", wants("gpu", 0, gpu=(1, 1000)))
    assert evicted(decide_arrivals(engine, wants("high", 0, 10, gpu=(2, 1000)))) == []


def test_evicting_a_guest_where_one_guest_is_the_limit():
    engine = engine_with([host("a")], preempting())
    lone = policy("first_fit", name="lone", one_guest_per_host=True, preemption=preempting().preemption)
    engine = engine_with([host("a")], lone)
    runs(engine, "a", wants("low", 0))
    assert evicted(decide_arrivals(engine, wants("high", 1000, 10))) == ["low"]


# -- victims on one host ----------------------------------------------------------------------------------------------

# Guests on a host of four cores as (name, cores, priority, start), what the preemptor asks for, and who has to go.
VICTIMS = [
    pytest.param([("p1", 2, 1, 5), ("p2", 2, 2, 5)], 2, ["p1"], id="the-lowest-priority-goes"),
    pytest.param([("old", 2, 1, 5), ("young", 2, 1, 6)], 2, ["young"], id="of-equal-priority-the-youngest-goes"),
    pytest.param([("new", 2, 1, 0), ("young", 2, 1, 6)], 2, ["new"], id="one-without-a-start-is-the-youngest"),
    pytest.param([("young", 2, 2, 9), ("old", 2, 1, 1)], 2, ["old"], id="priority-comes-before-age"),
    pytest.param([("p1", 1, 1, 5), ("p2", 3, 2, 5)], 2, ["p2"], id="victims-that-can-stay-stay"),
    pytest.param([("p3", 1, 3, 5), ("p2", 2, 2, 5), ("p1", 1, 1, 5)], 2, ["p2"], id="a-reprieve-may-skip-one"),
    pytest.param([("p3", 2, 3, 5), ("p2", 1, 2, 5), ("p1", 1, 1, 5)], 2, ["p2", "p1"], id="the-dear-one-is-put-back"),
    pytest.param([("p1", 1, 1, 5), ("p2", 1, 2, 5), ("p3", 1, 3, 5), ("p4", 1, 4, 5)], 3, ["p3", "p2", "p1"],
                 id="as-many-as-are-needed"),
    pytest.param([("equal", 2, 10, 5), ("p9", 2, 9, 5)], 2, ["p9"], id="only-strictly-lower-ones"),
    pytest.param([("equal", 3, 10, 5), ("p9", 1, 9, 5)], 2, [], id="none-where-all-lower-ones-are-not-enough"),
    pytest.param([("p1", 4, LOWEST, 5)], 4, ["p1"], id="the-lowest-priority-there-is"),
]  # fmt: skip


@pytest.mark.parametrize(("there", "cores", "victims"), VICTIMS)
@pytest.mark.parametrize("looks_around", [False, True], ids=["by-amounts", "by-verdicts"])
def test_victims_on_a_host(there, cores, victims, looks_around):
    engine = engine_with([host("a", labels={"host": "a"})], preempting())
    runs(engine, "a", *(wants(name, 1000 * cpu, p, started=start) for name, cpu, p, start in there))
    # One that looks at others takes the long way, on the books themselves; the victims are the same.
    more = {"anti_affinity": (GuestTerm("host", app("nobody")),)} if looks_around else {}
    assert evicted(decide_arrivals(engine, wants("high", 1000 * cores, 10, **more))) == victims


def test_gang_evicted_as_one_is_spared_before_an_equal_guest():
    engine = full("a")
    form(engine, "team", 2, disruption="all")
    runs(engine, "a", *(wants(f"team-{i}", 1000, 1, gang="team", started=9) for i in range(2)))
    runs(engine, "a", wants("alone", 2000, 1, started=1))
    assert evicted(decide_arrivals(engine, wants("high", 2000, 10))) == ["alone"]


def test_of_two_gangs_that_fall_as_one_the_larger_is_spared():
    engine = full("a", "b")
    form(engine, "pair", 2, disruption="all")
    form(engine, "trio", 3, disruption="all")
    runs(engine, "a", wants("pair-0", 1000, 1, gang="pair"), wants("trio-0", 1000, 1, gang="trio"))
    runs(engine, "a", wants("pair-1", 1000, 1, gang="pair"), wants("trio-1", 1000, 1, gang="trio"))
    runs(engine, "b", wants("trio-2", 1000, 1, gang="trio"), wants("rest", 3000, 20))
    assert sorted(evicted(decide_arrivals(engine, wants("high", 2000, 10)))) == ["pair-0", "pair-1"]


def test_a_gang_that_falls_as_one_loses_members_on_other_hosts_too():
    engine = full("a", "b")
    form(engine, "team", 2, disruption="all")
    runs(engine, "a", wants("team-0", 4000, 1, gang="team"))
    runs(engine, "b", wants("team-1", 1000, 1, gang="team"), wants("rest", 3000, 20))
    assert sorted(evicted(decide_arrivals(engine, wants("high", 4000, 10)))) == ["team-0", "team-1"]


def test_a_gang_that_does_not_fall_as_one_loses_a_single_member():
    engine = full("a", "b")
    form(engine, "team", 2)
    runs(engine, "a", wants("team-0", 4000, 1, gang="team"))
    runs(engine, "b", wants("team-1", 1000, 1, gang="team"), wants("rest", 3000, 20))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == ["team-0"]


def test_a_gang_that_falls_as_one_counts_by_the_gangs_priority():
    engine = full("a")
    form(engine, "team", 1, disruption="all", priority=10)
    runs(engine, "a", wants("team-0", 4000, 1, gang="team"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []


def test_member_counts_by_its_gangs_priority_if_evicted_alone():
    # KEP-5710: a unit is the whole group, or the pod at the group's priority.
    engine = full("a")
    form(engine, "team", 1, disruption="single", priority=10)
    runs(engine, "a", wants("team-0", 4000, 1, gang="team"))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10))) == []


# -- the choice of a host ---------------------------------------------------------------------------------------------

# What runs on hosts a and b, as (name, cores, priority, start); the preemptor needs a whole host. By name a would win.
HOSTS = [
    pytest.param([("a1", 4, 5, 1)], [("b1", 4, 4, 1)], id="lowest-highest-priority"),
    pytest.param([("a1", 4, 5, 1)], [("b1", 2, 4, 1), ("b2", 2, 4, 1)], id="lowest-highest-priority-before-number"),
    pytest.param([("a1", 2, 5, 1), ("a2", 2, 4, 1)], [("b1", 2, 5, 1), ("b2", 2, 3, 1)], id="lowest-sum"),
    pytest.param([("a1", 2, 5, 1), ("a2", 2, 0, 1)], [("b1", 4, 5, 1)], id="lowest-sum-counts-everybody"),
    pytest.param([("a1", 2, 5, 1), ("a2", 2, LOWEST, 1)], [("b1", 4, 5, 1)], id="fewest-victims"),
    pytest.param([("a1", 4, 5, 1)], [("b1", 4, 5, 2)], id="latest-start"),
    pytest.param([("a1", 2, 5, 1), ("a2", 2, 4, 9)], [("b1", 2, 5, 2), ("b2", 2, 4, 2)], id="start-of-the-highest"),
    pytest.param([("a1", 2, 5, 1), ("a2", 2, 5, 9)], [("b1", 2, 5, 2), ("b2", 2, 5, 3)], id="earliest-of-the-highest"),
]


@pytest.mark.parametrize(("on_a", "on_b"), HOSTS)
def test_the_cheaper_host_is_chosen(on_a, on_b):
    engine = full("a", "b")
    for name, there in (("a", on_a), ("b", on_b)):
        runs(engine, name, *(wants(n, 1000 * cpu, p, started=start) for n, cpu, p, start in there))
    actions = decide_arrivals(engine, wants("high", 4000, 10))
    assert nominated(actions) == {"high": "b"}
    assert sorted(evicted(actions)) == [name for name, *_ in on_b]


def test_fewer_broken_budgets_come_before_everything_else():
    engine = full("a", "b")
    protect(engine, "web", 0)
    runs(engine, "a", wants("a1", 4000, 1, app="web"))
    runs(engine, "b", wants("b1", 2000, 9), wants("b2", 2000, 9))
    assert nominated(decide_arrivals(engine, wants("high", 4000, 10))) == {"high": "b"}


def test_the_number_of_broken_budgets_counts():
    engine = full("a", "b")
    protect(engine, "web", 0)
    runs(engine, "a", wants("a1", 2000, 1, app="web"), wants("a2", 2000, 1, app="web"))
    runs(engine, "b", wants("b1", 4000, 9, app="web"))
    assert nominated(decide_arrivals(engine, wants("high", 4000, 10))) == {"high": "b"}


def test_equal_hosts_are_told_apart_by_name():
    engine = engine_with([host(name) for name in ("c", "a", "b")], preempting())
    for name in "abc":
        runs(engine, name, wants(f"{name}1", 4000, 1, started=7))
    assert nominated(decide_arrivals(engine, wants("high", 4000, 10))) == {"high": "a"}


def test_the_choice_does_not_depend_on_the_policys_scores():
    engine = engine_with([host("a"), host("b", cpu=8000)], preempting("spread"))
    runs(engine, "a", wants("a1", 4000, 1))
    runs(engine, "b", wants("b1", 8000, 2))
    assert nominated(decide_arrivals(engine, wants("high", 1000, 10))) == {"high": "a"}


# -- what is said about it --------------------------------------------------------------------------------------------


def test_a_preemptor_is_refused_with_the_reasons_of_all_hosts():
    engine = full("a", "b")
    runs(engine, "a", wants("low", 4000))
    runs(engine, "b", wants("top", 4000, 20))
    actions = decide_arrivals(engine, wants("high", 4000, 10))
    assert reasons(actions[0]) == {"resources: insufficient: cpu": 2}


def test_every_eviction_names_a_preemptor_that_is_nominated_there():
    engine = full("a", "b")
    for name in "ab":
        runs(engine, name, wants(f"{name}1", 2000, 1), wants(f"{name}2", 2000, 2))
    actions = decide_arrivals(engine, *(wants(f"high-{i}", 2000, 10) for i in range(4)))
    hosts = nominated(actions)
    assert len(hosts) == 4
    for action in actions:
        if isinstance(action, Evict):
            assert hosts[action.preemptor] == action.host


def test_preemptors_of_one_step_account_for_earlier_victims():
    engine = full("a", "b")
    for name in "ab":
        runs(engine, name, wants(f"{name}1", 4000, 1))
    actions = decide_arrivals(engine, wants("one", 4000, 10), wants("two", 4000, 10), wants("three", 4000, 10))
    assert nominated(actions) == {"one": "a", "two": "b"}
    assert engine.decision("three").note == "no eviction helps"
    for uid in evicted(actions):
        engine.apply(GuestLeft(uid=uid))
    assert binds(step(engine, SECOND)) == {"one": "a", "two": "b"}
    assert places(engine, "three") == [""]


def test_a_guest_on_its_way_out_is_waited_for_and_not_evicted():
    engine = full("a")
    runs(engine, "a", wants("going", 4000, 1, is_leaving=True))
    actions = decide_arrivals(engine, wants("high", 4000, 10))
    assert nominated(actions) == {"high": "a"}
    assert evicted(actions) == []
    engine.apply(GuestLeft(uid="going", at=SECOND))
    assert binds(step(engine, SECOND)) == {"high": "a"}


def test_a_guest_whose_end_is_decided_is_not_placed_any_more():
    # Scenario 12 and spec 2.1: a guest with a deletion timestamp is skipped.
    engine = full("a")
    arrive(engine, wants("gone", 1000, version=1))
    leaving = wants("gone", 1000, version=2, is_leaving=True)
    arrive(engine, leaving)
    assert binds(step(engine, 0)) == {}


def test_a_preemptor_whose_end_is_decided_evicts_nobody():
    engine = full("a")
    runs(engine, "a", wants("low", 4000))
    assert evicted(decide_arrivals(engine, wants("gone", 4000, 10, is_leaving=True))) == []


def test_an_assumed_guest_that_ends_gives_its_room_back_at_once():
    # Scenario 12.
    engine = full("a")
    assert binds(decide_arrivals(engine, wants("first", 4000))) == {"first": "a"}
    decide_arrivals(engine, wants("second", 4000))
    engine.apply(GuestLeft(uid="first", at=5 * SECOND))
    assert binds(step(engine, 5 * SECOND)) == {"second": "a"}


def test_host_that_shrinks_below_its_use_evicts_and_takes_no_guest():
    # Scenario 16.
    engine = full("a")
    runs(engine, "a", wants("one", 2000, 5), wants("two", 2000, 5))
    shrunk = msgspec.structs.replace(host("a", cpu=1000))
    engine.apply(HostChanged(host=shrunk))
    assert step(engine, 0) == []
    assert [type(a) for a in decide_arrivals(engine, wants("small", 500, 5))] == [Defer]
    assert [type(a) for a in decide_arrivals(engine, wants("zero", 0))] == [Bind]


def test_enough_is_evicted_on_a_host_that_gives_more_than_it_has():
    engine = full("a")
    runs(engine, "a", wants("one", 2000, 1), wants("two", 2000, 2))
    engine.apply(HostChanged(host=host("a", cpu=1000)))
    assert sorted(evicted(decide_arrivals(engine, wants("high", 1000, 10)))) == ["one", "two"]


def test_labels_of_hosts_that_change_count_for_victims():
    engine = engine_with([host("a", labels={"zone": "x"})], preempting())
    runs(engine, "a", wants("low", 4000))
    assert evicted(decide_arrivals(engine, wants("high", 4000, 10, selector={"zone": "y"}))) == []
    engine.apply(HostChanged(host=msgspec.structs.replace(host("a"), labels=labels({"zone": "y"}))))
    found: list = []
    for _ in range(3):
        found += step(engine, engine.next_due() or engine.now)
    assert evicted(found) == ["low"]


# -- dry runs ---------------------------------------------------------------------------------------------------------

LOOKS = [
    pytest.param({}, id="amounts"),
    pytest.param({"gpu": (1, 500)}, id="devices"),
    pytest.param({"ports": (HostPort(80),)}, id="ports"),
    pytest.param({"anti_affinity": (GuestTerm("host", app("web")),)}, id="apart"),
    pytest.param({"affinity": (GuestTerm("zone", app("web")),)}, id="near"),
    pytest.param({"spread": (Spread("zone", 1, app("web")),), "app": "web"}, id="spread"),
]


def crowded(rng: Random, **rules) -> Engine:
    """Return an engine with six hosts and guests of all kinds on them."""
    hosts = [host(f"h{i}", gpus=2, labels={"host": f"h{i}", "zone": "xy"[i % 2]}) for i in range(6)]
    engine = engine_with(hosts, preempting(**rules))
    protect(engine, "web", 2)
    form(engine, "team", 2, disruption=rng.choice(["single", "all"]))
    for number in range(24):
        more: dict = {"app": rng.choice(["web", "db"])}
        more |= rng.choice([{}, {}, {"gpu": (1, 500)}, {"ports": (HostPort(80),)}])
        if rng.random() < 0.2:
            more["gang"] = "team"
        one = wants(f"g{number}", 500 * rng.randint(0, 4), rng.randint(0, 6), started=rng.randint(0, 9), **more)
        runs(engine, f"h{rng.randrange(6)}", one)
    return engine


def plan(engine: Engine, uid: str):
    state = engine.state
    return engine._evictions.planner.plan(state.shape(state.guests[uid]), 0, frozenset())


@pytest.mark.parametrize("needs", LOOKS)
def test_a_dry_run_leaves_the_checkpoint_as_it_was(needs):
    engine = crowded(Random(1))
    arrive(engine, wants("high", 3500, 10, **needs))
    plan(engine, "high")  # reasons are named when they are first met
    before = engine.checkpoint()
    columns = engine.state.cluster.columns()
    used, left = columns.used.copy(), columns.device_left.copy()
    counts = engine.state.cluster.counters.tallies()
    engine.state.cluster.touch(0)
    plan(engine, "high")
    assert engine.checkpoint() == before
    assert (columns.used == used).all()
    assert (columns.device_left == left).all()
    assert engine.state.cluster.counters.tallies() == counts


@pytest.mark.parametrize("needs", LOOKS)
@pytest.mark.parametrize("budgets", ["best_effort", "strict"])
def test_kept_dry_runs_equal_fresh_ones(needs, budgets):
    rng = Random(7)
    engine = crowded(rng, budgets=budgets)
    arrive(engine, wants("high", 3000, 10, **needs), wants("mid", 2500, 4, **needs))
    found = 0
    for round_number in range(40):
        what = rng.randrange(6)
        running = [uid for uid in engine.guests() if engine.decision(uid).host]
        if what == 0 and running:
            leave(engine, rng.choice(running))
        elif what == 1:
            more = {"app": rng.choice(["web", "db"])}
            runs(engine, f"h{rng.randrange(6)}", wants(f"n{round_number}", 1000, rng.randint(0, 6), **more))
        elif what == 2:
            protect(engine, "web", rng.randint(0, 3))
        elif what == 3:
            labelled = {"host": "h0", "zone": rng.choice("xy")}
            engine.apply(HostChanged(host=host("h0", cpu=rng.choice([3000, 5000]), gpus=2, labels=labelled)))
        elif what == 4:
            form(engine, "team", 2, disruption=rng.choice(["single", "all"]))
        else:
            rules = rng.choice(["best_effort", "strict"])
            engine.apply(PolicyChanged(policies=(preempting(budgets=rules),)))
        fresh = Engine.restore(engine.checkpoint())
        for uid in ("high", "mid"):
            assert plan(engine, uid) == plan(fresh, uid), (round_number, what)
            found += plan(engine, uid) is not None
    assert found > 5


def test_a_preemptor_is_placed_or_says_why_not():
    rng = Random(3)
    engine = crowded(rng)
    front = SimpleFront(engine)
    arrive(engine, *(wants(f"high-{i}", 500 * rng.randint(1, 8), rng.randint(1, 10)) for i in range(30)))
    done = front.settle(300 * SECOND)
    claims = {a.preemptor for a in done if isinstance(a, Evict)}
    assert len(claims) > 5
    for uid in claims:
        decision = engine.decision(uid)
        assert decision.host or (decision.note and decision.reasons)


# -- very many --------------------------------------------------------------------------------------------------------


def test_ten_thousand_guests_that_fit_nowhere_do_not_hold_up_those_that_do():
    # Scenario 29: those who wait are looked at by shape, not one by one, and only for what can cure them.
    engine = engine_with([host(f"h{i:02}") for i in range(20)], preempting())
    huge = [wants("huge", 5000 + i, 10).spec for i in range(5)]
    engine.apply(batch(huge, [f"huge-{i}" for i in range(10_000)]))
    assert len(step(engine, 0)) == 10_000
    before = engine.state.decisions
    for number in range(600):
        arrive(engine, wants(f"small-{number}", 1000))
        assert len(binds(step(engine, (number + 1) * SECOND // 600))) == 1
        leave(engine, f"small-{number}")
    assert engine.state.decisions == before + 600
    assert all(engine.decision(f"huge-{i}").attempt == 1 for i in range(0, 10_000, 1000))
