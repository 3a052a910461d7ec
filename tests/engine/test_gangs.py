"""Gangs: all members that the minimum needs or none, in one transaction, whatever comes first."""

from __future__ import annotations

import msgspec
import pytest

from hostler.engine import Engine
from hostler.errors import FactError
from hostler.model import (
    Defer,
    Gang,
    GangChanged,
    GangLeft,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestTerm,
    HostJoined,
    Quota,
    QuotasChanged,
    Reservation,
    ReservationChanged,
    Spread,
    amounts,
)
from tests.engine.fleet import SECOND, arrive, binds, engine_with, holds, host, reasons, states, step, step_to_rest
from tests.engine.gang_instances import (
    SimpleFront,
    app,
    form,
    held_for,
    leave,
    members,
    places,
    preempting,
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


# -- quorum -----------------------------------------------------------------------------------------------------------


def test_a_gang_of_four_waits_until_four_are_there():
    # Scenario 23: gated, not queued, a visible reason, nothing held.
    engine = fleet(8)
    form(engine, "team", 4)
    for i in range(3):
        assert decide_arrivals(engine, wants(f"team-{i}", 1000, gang="team")) == []
        assert states(engine) == dict.fromkeys(states(engine), "gated")
        assert engine.decision("team-0").note == f"{i + 1}/4 members of gang default/team are there"
    assert engine.next_due() is None
    assert held_for(engine) == {}
    assert binds(decide_arrivals(engine, wants("team-3", 1000, gang="team"))) == {f"team-{i}": "a" for i in range(4)}


def test_a_gang_without_its_quorum_holds_nothing_against_others():
    engine = fleet(4)
    form(engine, "team", 3, head_of_line="reserve", priority=9)
    decide_arrivals(engine, *members("team", 2, 2000))
    assert binds(decide_arrivals(engine, wants("other", 4000))) == {"other": "a"}


def test_members_may_come_before_their_gang():
    engine = fleet(8)
    assert decide_arrivals(engine, *members("team", 2)) == []
    assert engine.decision("team-0").note == "gang default/team is not known yet"
    assert states(engine) == {"team-0": "gated", "team-1": "gated"}
    form(engine, "team", 2)
    assert len(binds(step(engine, SECOND))) == 2


def test_a_gang_may_come_before_its_members():
    engine = fleet(8)
    form(engine, "team", 2)
    assert engine.next_due() is None
    assert len(binds(decide_arrivals(engine, *members("team", 2)))) == 2


def test_guests_of_equal_name_in_another_namespace_are_another_gang():
    engine = fleet(8)
    form(engine, "team", 2)
    form(engine, "team", 2, namespace="other")
    stranger = msgspec.structs.replace(wants("x", 1000), gang="other/team")
    assert decide_arrivals(engine, wants("team-0", 1000, gang="team"), stranger) == []


def test_a_member_that_runs_already_counts_for_the_quorum():
    # Scenario 19: bound members count.
    engine = fleet(8)
    form(engine, "team", 3)
    runs(engine, "a", *members("team", 2))
    assert binds(decide_arrivals(engine, wants("team-2", 1000, gang="team"))) == {"team-2": "a"}


def test_a_member_that_leaves_before_the_quorum_is_there_is_missing():
    engine = fleet(8)
    form(engine, "team", 3)
    decide_arrivals(engine, *members("team", 2))
    leave(engine, "team-0")
    assert decide_arrivals(engine, wants("team-2", 1000, gang="team")) == []
    assert engine.decision("team-2").note == "2/3 members of gang default/team are there"


def test_a_gang_that_loses_its_quorum_while_it_waits_leaves_the_queue():
    engine = fleet(2)
    form(engine, "team", 3)
    assert len(holds(decide_arrivals(engine, *members("team", 3)))) == 3
    leave(engine, "team-0")
    assert states(engine) == {"team-1": "gated", "team-2": "gated"}
    engine.apply(HostJoined(host=host("z", cpu=64000)))
    assert binds(step(engine, 60 * SECOND)) == {}
    assert len(binds(decide_arrivals(engine, wants("team-9", 1000, gang="team")))) == 3


def test_the_minimum_is_one_where_nothing_else_is_said():
    engine = fleet(8)
    engine.apply(GangChanged(gang=Gang(name="team")))
    assert len(binds(decide_arrivals(engine, *members("team", 1)))) == 1


@pytest.mark.parametrize(
    "gang",
    [
        pytest.param(Gang(name="", min_count=1), id="no-name"),
        pytest.param(Gang(name="g", min_count=0), id="no-minimum"),
        pytest.param(Gang(name="g", min_count=-1), id="negative"),
        pytest.param(Gang(name="g", min_count=3, max_count=2), id="maximum-below-minimum"),
        pytest.param(Gang(name="g", min_count=3, max_count=-1), id="negative-maximum"),
    ],
)
def test_impossible_gangs_are_refused_and_change_nothing(gang):
    engine = fleet(8)
    before = engine.checkpoint()
    with pytest.raises(FactError):
        engine.apply(GangChanged(gang=gang))
    assert engine.checkpoint() == before


def test_older_facts_about_a_gang_change_nothing():
    engine = fleet(8)
    form(engine, "team", 2, version=5)
    form(engine, "team", 1, version=4)
    assert decide_arrivals(engine, *members("team", 1)) == []


def test_a_member_cannot_change_its_gang():
    engine = fleet(8)
    arrive(engine, wants("g", 1000, gang="team", version=1))
    with pytest.raises(FactError, match="cannot change its gang"):
        engine.apply(GuestChanged(guest=wants("g", 1000, gang="other", version=2)))


# -- all or nothing ---------------------------------------------------------------------------------------------------


def test_a_gang_is_placed_wholly_or_not_at_all():
    engine = fleet(3)
    form(engine, "team", 4)
    actions = decide_arrivals(engine, *members("team", 4))
    assert [type(a) for a in actions] == [Defer] * 4
    assert states(engine) == {f"team-{i}": "waiting" for i in range(4)}
    assert held_for(engine) == {}
    assert binds(decide_arrivals(engine, wants("other", 3000))) == {"other": "a"}


def test_the_refusal_says_who_fits_and_what_is_missing():
    engine = fleet(3)
    form(engine, "team", 4)
    actions = decide_arrivals(engine, *members("team", 4))
    notes = {uid: engine.decision(uid).note for uid in states(engine)}
    lacking = "gang default/team needs 1 more of its members placed"
    assert sorted(notes.values()) == [f"fits, but {lacking}"] * 3 + [lacking]
    missing = [reasons(a) for a in actions if "gang: gang incomplete: default/team" not in reasons(a)]
    assert missing == [{"resources: insufficient: cpu": 1}]


def test_every_verdict_of_a_refused_member_adds_up_to_all_hosts():
    engine = fleet(2, 1, 4)
    form(engine, "team", 8)
    for action in decide_arrivals(engine, *members("team", 8)):
        assert action.hosts == 3
        assert sum(count.hosts for count in action.reasons) == 3


def test_a_gang_is_placed_when_enough_has_become_free():
    engine = fleet(4)
    runs(engine, "a", wants("one", 1000), wants("two", 1000))
    form(engine, "team", 4)
    assert binds(decide_arrivals(engine, *members("team", 4))) == {}
    leave(engine, "one")
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert places(engine, "team-0") == [""]
    leave(engine, "two")
    front.settle(120 * SECOND)
    assert places(engine, *(f"team-{i}" for i in range(4))) == ["a"] * 4


def test_a_gang_is_placed_over_several_hosts():
    engine = fleet(2, 1, 3)
    form(engine, "team", 6)
    assert sorted(binds(decide_arrivals(engine, *members("team", 6))).values()) == ["a", "a", "b", "c", "c", "c"]


def test_members_of_different_shapes_are_placed_together():
    engine = fleet(3, 2)
    form(engine, "team", 3)
    team = [wants("small", 1000, gang="team"), wants("big", 2000, gang="team"), wants("mid", 2000, gang="team")]
    found = binds(decide_arrivals(engine, *team))
    assert sorted(found) == ["big", "mid", "small"]


def test_one_member_that_fits_nowhere_keeps_the_whole_gang_out():
    engine = fleet(8)
    form(engine, "team", 3)
    team = [*members("team", 2), wants("huge", 9000, gang="team")]
    assert binds(decide_arrivals(engine, *team)) == {}
    assert "resources: insufficient: cpu" in reasons(engine.decision("huge"))


def test_one_member_more_than_the_minimum_may_stay_out():
    engine = fleet(8)
    form(engine, "team", 2)
    team = [*members("team", 2), wants("huge", 9000, gang="team")]
    actions = decide_arrivals(engine, *team)
    assert sorted(binds(actions)) == ["team-0", "team-1"]
    assert holds(actions) == ["huge"]
    assert engine.decision("huge").note == "the gang runs; there is no room for this member yet"


def test_members_of_different_policies_are_placed_together():
    engine = engine_with([host("a", cpu=4000), host("b", cpu=4000)], "first_fit", "spread")
    form(engine, "team", 2)
    team = [wants("one", 3000, gang="team"), wants("two", 3000, gang="team", policy="spread")]
    assert sorted(binds(decide_arrivals(engine, *team)).values()) == ["a", "b"]


def test_members_that_need_each_other_near_are_placed_together():
    hosts = [host(name, cpu=2000, labels={"zone": zone}) for name, zone in (("a", "x"), ("b", "y"), ("c", "y"))]
    engine = engine_with(hosts, "first_fit")
    form(engine, "team", 3)
    near = {"app": "web", "affinity": (GuestTerm("zone", app("web")),)}
    assert set(binds(decide_arrivals(engine, *members("team", 3, 1000, **near))).values()) == {"b", "c"}


def test_members_that_stay_apart_are_placed_apart():
    hosts = [host(name, labels={"host": name}) for name in "abc"]
    engine = engine_with(hosts, "first_fit")
    form(engine, "team", 3)
    apart = {"app": "web", "anti_affinity": (GuestTerm("host", app("web")),)}
    assert sorted(binds(decide_arrivals(engine, *members("team", 3, 1000, **apart))).values()) == ["a", "b", "c"]
    form(engine, "more", 4)
    assert binds(decide_arrivals(engine, *members("more", 4, 1000, **apart | {"app": "web"}))) == {}


def test_devices_of_a_gang_are_placed_wholly_or_not_at_all():
    engine = engine_with([host("a", gpus=2), host("b", gpus=1)], "first_fit")
    form(engine, "team", 4)
    assert binds(decide_arrivals(engine, *members("team", 4, 0, gpu=(1, 1000)))) == {}
    assert [engine.state.cluster.device_left(engine.state.cluster.row_of[n]) for n in "ab"] == [[1000, 1000], [1000]]
    form(engine, "team", 3)
    assert len(binds(step(engine, 60 * SECOND))) == 3


def test_a_gang_that_prepares_is_bound_when_it_is_ready():
    engine = fleet(4)
    form(engine, "team", 2)
    arrive(engine, *members("team", 2, 1000, prepare=("disk",)))
    front = SimpleFront(engine)
    front.settle(SECOND)
    assert states(engine) == {"team-0": "bound", "team-1": "bound"}


# -- a failed gang leaves not one bit changed -------------------------------------------------------------------------


def bits(engine: Engine) -> dict[str, object]:
    """Return everything that a refused gang must leave as it was: columns, counters, holds, and guests on hosts."""
    cluster = engine.state.cluster
    columns = cluster.columns()
    found: dict[str, object] = {
        name: getattr(columns, name).tobytes()
        for name in (
            "present",
            "limit",
            "used",
            "guests",
            "scored",
            "device_left",
            "device_size",
            "device_kind",
            "tags",
        )
    }
    found["counts"] = cluster.counters.tallies()
    found["totals"] = {key: cluster.counters.total(n) for key, n in cluster.counters._number.items()}
    found["recounted"] = cluster.counters.recount(
        {shape.number: shape.spec for on in cluster.guests_on for shape in on.values()}
    )
    found["placed"] = {shape: dict(rows) for shape, rows in cluster.counters.placed.items()}
    found["holds"] = held_for(engine)
    found["guests"] = [dict(guests) for guests in cluster.guests_on]
    found["quotas"] = engine.state.quotas.used
    return found


NEEDS = [
    pytest.param({}, id="plain"),
    pytest.param({"gpu": (1, 500)}, id="devices"),
    pytest.param({"anti_affinity": (GuestTerm("zone", app("web")),), "app": "web"}, id="apart"),
    pytest.param({"affinity": (GuestTerm("zone", app("web")),), "app": "web"}, id="near"),
    pytest.param({"spread": (Spread("zone", 1, app("web")),), "app": "web"}, id="spread"),
    pytest.param({"tenant": "t"}, id="tenant"),
]


@pytest.mark.parametrize("needs", NEEDS)
@pytest.mark.parametrize("topology", ["", "zone"])
@pytest.mark.parametrize("evicts", [False, True])
def test_a_gang_that_fails_leaves_not_one_bit_changed(needs, topology, evicts):
    zones = {"a": "x", "b": "x", "c": "y"}
    hosts = [host(name, labels={"zone": zone}, gpus=2) for name, zone in zones.items()]
    engine = engine_with(hosts, preempting() if evicts else "first_fit")
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", min=amounts({"cpu": 64000})),)))
    reservation = Reservation(name="r", amounts=amounts({"cpu": 1000}), tenant="other")
    engine.apply(ReservationChanged(reservation=reservation))
    old = wants("old", 1000, -1, app="web", anti_affinity=(GuestTerm("zone", app("x")),), gpu=(1, 500))
    runs(engine, "a", old, wants("other", 1000, -1, tenant="other"))
    form(engine, "team", 12, topology=topology)
    arrive(engine, *members("team", 11, 1000, **needs), wants("team-big", 2000, gang="team", **needs))
    # Counters for what the members say of each other are made when they are first looked at; they may stay.
    assert len(holds(step_to_rest(engine, 0))) == 12
    before = bits(engine)
    form(engine, "team", 12, topology=topology, release_after_ns=1)
    assert len(holds(step_to_rest(engine, 60 * SECOND))) == 12
    assert bits(engine) == before
    assert Engine.restore(engine.checkpoint()).checkpoint() == engine.checkpoint()


@pytest.mark.parametrize("evicts", [False, True])
def test_a_refused_gang_changes_nothing_in_the_checkpoint_but_its_refusal(evicts):
    engine = engine_with([host("a", cpu=3000)], preempting() if evicts else "first_fit")
    runs(engine, "a", wants("old", 1000))
    form(engine, "team", 4)
    step(engine, 0)
    arrive(engine, *members("team", 4))
    before = msgspec.msgpack.decode(engine.checkpoint())
    step(engine, 0)
    after = msgspec.msgpack.decode(engine.checkpoint())
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    # The decisions made, the reasons they name, the members' records, and where the gang waits.
    assert changed <= {"counters", "reasons", "guests", "queue", "queue_stamp", "gangs_refused"}


# -- beyond the minimum, and up to a maximum --------------------------------------------------------------------------


def test_members_beyond_the_minimum_are_placed_with_the_others():
    engine = fleet(8)
    form(engine, "team", 2)
    assert len(binds(decide_arrivals(engine, *members("team", 5)))) == 5


def test_members_beyond_the_minimum_that_find_no_room_wait_for_it():
    engine = fleet(3)
    form(engine, "team", 2)
    assert len(binds(decide_arrivals(engine, *members("team", 4)))) == 3
    waiting = [uid for uid, state in states(engine).items() if state == "waiting"]
    assert len(waiting) == 1
    engine.apply(HostJoined(host=host("b")))
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert places(engine, *waiting) == ["b"]


def test_members_that_come_late_join_a_running_gang():
    engine = fleet(8)
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2))
    assert binds(decide_arrivals(engine, wants("late", 1000, gang="team"), now=SECOND)) == {"late": "a"}


def test_late_members_come_one_by_one_and_not_all_or_nothing():
    engine = fleet(4)
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2))
    actions = decide_arrivals(engine, *members("team", 3, 1000, first=2), now=SECOND)
    assert (len(binds(actions)), len(holds(actions))) == (2, 1)


def test_no_more_than_the_maximum_are_placed_the_oldest_first():
    engine = fleet(8)
    form(engine, "team", 2, max_count=3)
    assert sorted(binds(decide_arrivals(engine, *members("team", 5)))) == ["team-0", "team-1", "team-2"]
    assert sorted(uid for uid in states(engine) if not engine.decision(uid).host) == ["team-3", "team-4"]


def test_members_beyond_the_maximum_are_told_so():
    engine = fleet(8)
    form(engine, "team", 2, max_count=2)
    decide_arrivals(engine, *members("team", 3))
    assert engine.decision("team-2").note == "gang default/team has its maximum of members"


def test_members_beyond_the_maximum_take_the_place_of_one_that_left():
    engine = fleet(8)
    form(engine, "team", 2, max_count=2)
    decide_arrivals(engine, *members("team", 4))
    leave(engine, "team-0")
    assert binds(step(engine, SECOND)) == {"team-2": "a"}


def test_a_raised_maximum_lets_more_members_in():
    engine = fleet(8)
    form(engine, "team", 2, max_count=2)
    decide_arrivals(engine, *members("team", 4))
    form(engine, "team", 2, max_count=3)
    assert binds(step(engine, SECOND)) == {"team-2": "a"}


def test_a_gang_at_its_maximum_is_not_due():
    engine = fleet(8)
    form(engine, "team", 2, max_count=2)
    arrive(engine, *members("team", 4))
    front = SimpleFront(engine)
    front.settle(600 * SECOND, most=10)
    assert step(engine, 1200 * SECOND) == []


# -- changes ----------------------------------------------------------------------------------------------------------


def test_a_lowered_minimum_wakes_the_gang():
    # Scenario 21.
    engine = fleet(3)
    form(engine, "team", 4)
    assert binds(decide_arrivals(engine, *members("team", 4))) == {}
    form(engine, "team", 3)
    assert len(binds(step(engine, SECOND))) == 3


def test_a_lowered_minimum_lets_a_gated_gang_go():
    engine = fleet(8)
    form(engine, "team", 4)
    decide_arrivals(engine, *members("team", 2))
    form(engine, "team", 2)
    assert len(binds(step(engine, SECOND))) == 2


def test_a_raised_minimum_counts_for_the_next_cycle():
    engine = fleet(8)
    form(engine, "team", 2)
    arrive(engine, *members("team", 2))
    form(engine, "team", 3)
    assert step(engine, 0) == []
    assert len(binds(decide_arrivals(engine, wants("team-2", 1000, gang="team")))) == 3


def test_a_raised_minimum_leaves_a_running_gang_alone():
    engine = fleet(8)
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2))
    form(engine, "team", 3)
    assert step(engine, 60 * SECOND) == []
    assert states(engine) == {"team-0": "assumed", "team-1": "assumed"}
    assert binds(decide_arrivals(engine, wants("team-2", 1000, gang="team"))) == {"team-2": "a"}


def test_a_member_added_while_the_gang_waits_counts_at_once():
    engine = fleet(4)
    form(engine, "team", 2)
    assert binds(decide_arrivals(engine, *members("team", 2, 3000))) == {}
    assert binds(decide_arrivals(engine, wants("small", 1000, gang="team"), now=SECOND)).keys() >= {"small"}


def test_members_of_a_gang_that_is_gone_wait_for_it():
    engine = fleet(2)
    form(engine, "team", 3)
    decide_arrivals(engine, *members("team", 3))
    engine.apply(GangLeft(key="default/team"))
    engine.apply(HostJoined(host=host("b")))
    assert binds(step(engine, 60 * SECOND)) == {}
    assert engine.decision("team-0").note == "gang default/team is not known yet"
    assert set(states(engine).values()) == {"gated"}
    form(engine, "team", 3)
    assert len(binds(step(engine, 61 * SECOND))) == 3


def test_a_gang_that_is_gone_leaves_its_running_members_alone():
    engine = fleet(8)
    form(engine, "team", 2)
    decide_arrivals(engine, *members("team", 2))
    engine.apply(GangLeft(key="default/team"))
    assert step(engine, 60 * SECOND) == []
    assert places(engine, "team-0", "team-1") == ["a", "a"]


def test_member_bound_by_another_program_counts():
    engine = fleet(2, 2)
    form(engine, "team", 4)
    runs(engine, "b", wants("old", 1000))
    assert binds(decide_arrivals(engine, *members("team", 4))) == {}
    engine.apply(GuestBound(uid="team-3", host="b"))
    engine.apply(GuestLeft(uid="old"))
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert sorted(places(engine, *(f"team-{i}" for i in range(4)))) == ["a", "a", "b", "b"]
