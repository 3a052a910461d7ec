"""Gangs: all members that the minimum needs or none, in one transaction, whatever comes first."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from hostler.engine import Engine
from hostler.errors import FactError
from hostler.model import (
    BindFailed,
    Gang,
    GangChanged,
    GangLeft,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestTerm,
    Hold,
    HostJoined,
    HostLeft,
    Quota,
    QuotasChanged,
    Reservation,
    ReservationChanged,
    Spread,
    amounts,
)
from tests.engine.fleet import SECOND, arrive, binds, engine_with, holds, host, reasons, states, step
from tests.engine.gang_instances import (
    Front,
    app,
    evicted,
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


def tried(engine: Engine, *guests, now: int | None = None) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now if now is None else now)


# -- quorum -----------------------------------------------------------------------------------------------------------


def test_a_gang_of_four_waits_until_four_are_there():
    # Scenario 23: gated, not queued, a visible reason, nothing held.
    engine = fleet(8)
    form(engine, "team", 4)
    for i in range(3):
        assert tried(engine, wants(f"team-{i}", 1000, gang="team")) == []
        assert states(engine) == dict.fromkeys(states(engine), "gated")
        assert engine.decision("team-0").note == f"{i + 1}/4 members of gang default/team are there"
    assert engine.next_due() is None
    assert held_for(engine) == {}
    assert binds(tried(engine, wants("team-3", 1000, gang="team"))) == {f"team-{i}": "a" for i in range(4)}


def test_a_gang_without_its_quorum_holds_nothing_against_others():
    engine = fleet(4)
    form(engine, "team", 3, head_of_line="reserve", priority=9)
    tried(engine, *members("team", 2, 2000))
    assert binds(tried(engine, wants("other", 4000))) == {"other": "a"}


def test_members_may_come_before_their_gang():
    engine = fleet(8)
    assert tried(engine, *members("team", 2)) == []
    assert engine.decision("team-0").note == "gang default/team is not known yet"
    assert states(engine) == {"team-0": "gated", "team-1": "gated"}
    form(engine, "team", 2)
    assert len(binds(step(engine, SECOND))) == 2


def test_a_gang_may_come_before_its_members():
    engine = fleet(8)
    form(engine, "team", 2)
    assert engine.next_due() is None
    assert len(binds(tried(engine, *members("team", 2)))) == 2


def test_guests_of_equal_name_in_another_namespace_are_another_gang():
    engine = fleet(8)
    form(engine, "team", 2)
    form(engine, "team", 2, namespace="other")
    stranger = msgspec.structs.replace(wants("x", 1000), gang="other/team")
    assert tried(engine, wants("team-0", 1000, gang="team"), stranger) == []


def test_a_member_that_runs_already_counts_for_the_quorum():
    # Scenario 19: bound members count.
    engine = fleet(8)
    form(engine, "team", 3)
    runs(engine, "a", *members("team", 2))
    assert binds(tried(engine, wants("team-2", 1000, gang="team"))) == {"team-2": "a"}


def test_a_member_that_leaves_before_the_quorum_is_there_is_missing():
    engine = fleet(8)
    form(engine, "team", 3)
    tried(engine, *members("team", 2))
    leave(engine, "team-0")
    assert tried(engine, wants("team-2", 1000, gang="team")) == []
    assert engine.decision("team-2").note == "2/3 members of gang default/team are there"


def test_a_gang_that_loses_its_quorum_while_it_waits_leaves_the_queue():
    engine = fleet(2)
    form(engine, "team", 3)
    assert len(holds(tried(engine, *members("team", 3)))) == 3
    leave(engine, "team-0")
    assert states(engine) == {"team-1": "gated", "team-2": "gated"}
    engine.apply(HostJoined(host=host("z", cpu=64000)))
    assert binds(step(engine, 60 * SECOND)) == {}
    assert len(binds(tried(engine, wants("team-9", 1000, gang="team")))) == 3


def test_the_minimum_is_one_where_nothing_else_is_said():
    engine = fleet(8)
    engine.apply(GangChanged(gang=Gang(name="team")))
    assert len(binds(tried(engine, *members("team", 1)))) == 1


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
    assert tried(engine, *members("team", 1)) == []


def test_a_member_cannot_change_its_gang():
    engine = fleet(8)
    arrive(engine, wants("g", 1000, gang="team", version=1))
    with pytest.raises(FactError, match="cannot change its gang"):
        engine.apply(GuestChanged(guest=wants("g", 1000, gang="other", version=2)))


# -- all or nothing ---------------------------------------------------------------------------------------------------


def test_a_gang_is_placed_wholly_or_not_at_all():
    engine = fleet(3)
    form(engine, "team", 4)
    actions = tried(engine, *members("team", 4))
    assert [type(a) for a in actions] == [Hold] * 4
    assert states(engine) == {f"team-{i}": "waiting" for i in range(4)}
    assert held_for(engine) == {}
    assert binds(tried(engine, wants("other", 3000))) == {"other": "a"}


def test_the_refusal_says_who_fits_and_what_is_missing():
    engine = fleet(3)
    form(engine, "team", 4)
    actions = tried(engine, *members("team", 4))
    notes = {uid: engine.decision(uid).note for uid in states(engine)}
    lacking = "gang default/team needs 1 more of its members placed"
    assert sorted(notes.values()) == [f"fits, but {lacking}"] * 3 + [lacking]
    missing = [reasons(a) for a in actions if "gang: gang incomplete: default/team" not in reasons(a)]
    assert missing == [{"resources: insufficient: cpu": 1}]


def test_every_verdict_of_a_refused_member_adds_up_to_all_hosts():
    engine = fleet(2, 1, 4)
    form(engine, "team", 8)
    for action in tried(engine, *members("team", 8)):
        assert action.hosts == 3
        assert sum(count.hosts for count in action.reasons) == 3


def test_a_gang_is_placed_when_enough_has_become_free():
    engine = fleet(4)
    runs(engine, "a", wants("one", 1000), wants("two", 1000))
    form(engine, "team", 4)
    assert binds(tried(engine, *members("team", 4))) == {}
    leave(engine, "one")
    front = Front(engine)
    front.settle(60 * SECOND)
    assert places(engine, "team-0") == [""]
    leave(engine, "two")
    front.settle(120 * SECOND)
    assert places(engine, *(f"team-{i}" for i in range(4))) == ["a"] * 4


def test_a_gang_is_placed_over_several_hosts():
    engine = fleet(2, 1, 3)
    form(engine, "team", 6)
    assert sorted(binds(tried(engine, *members("team", 6))).values()) == ["a", "a", "b", "c", "c", "c"]


def test_members_of_different_shapes_are_placed_together():
    engine = fleet(3, 2)
    form(engine, "team", 3)
    team = [wants("small", 1000, gang="team"), wants("big", 2000, gang="team"), wants("mid", 2000, gang="team")]
    found = binds(tried(engine, *team))
    assert sorted(found) == ["big", "mid", "small"]


def test_one_member_that_fits_nowhere_keeps_the_whole_gang_out():
    engine = fleet(8)
    form(engine, "team", 3)
    team = [*members("team", 2), wants("huge", 9000, gang="team")]
    assert binds(tried(engine, *team)) == {}
    assert "resources: insufficient: cpu" in reasons(engine.decision("huge"))


def test_one_member_more_than_the_minimum_may_stay_out():
    engine = fleet(8)
    form(engine, "team", 2)
    team = [*members("team", 2), wants("huge", 9000, gang="team")]
    actions = tried(engine, *team)
    assert sorted(binds(actions)) == ["team-0", "team-1"]
    assert holds(actions) == ["huge"]
    assert engine.decision("huge").note == "the gang runs; there is no room for this member yet"


def test_members_of_different_policies_are_placed_together():
    engine = engine_with([host("a", cpu=4000), host("b", cpu=4000)], "first_fit", "spread")
    form(engine, "team", 2)
    team = [wants("one", 3000, gang="team"), wants("two", 3000, gang="team", policy="spread")]
    assert sorted(binds(tried(engine, *team)).values()) == ["a", "b"]


def test_members_that_need_each_other_near_are_placed_together():
    hosts = [host(name, cpu=2000, labels={"zone": zone}) for name, zone in (("a", "x"), ("b", "y"), ("c", "y"))]
    engine = engine_with(hosts, "first_fit")
    form(engine, "team", 3)
    near = {"app": "web", "affinity": (GuestTerm("zone", app("web")),)}
    assert set(binds(tried(engine, *members("team", 3, 1000, **near))).values()) == {"b", "c"}


def test_members_that_stay_apart_are_placed_apart():
    hosts = [host(name, labels={"host": name}) for name in "abc"]
    engine = engine_with(hosts, "first_fit")
    form(engine, "team", 3)
    apart = {"app": "web", "anti_affinity": (GuestTerm("host", app("web")),)}
    assert sorted(binds(tried(engine, *members("team", 3, 1000, **apart))).values()) == ["a", "b", "c"]
    form(engine, "more", 4)
    assert binds(tried(engine, *members("more", 4, 1000, **apart | {"app": "web"}))) == {}


def test_devices_of_a_gang_are_placed_wholly_or_not_at_all():
    engine = engine_with([host("a", gpus=2), host("b", gpus=1)], "first_fit")
    form(engine, "team", 4)
    assert binds(tried(engine, *members("team", 4, 0, gpu=(1, 1000)))) == {}
    assert [engine.state.cluster.device_left(engine.state.cluster.row_of[n]) for n in "ab"] == [[1000, 1000], [1000]]
    form(engine, "team", 3)
    assert len(binds(step(engine, 60 * SECOND))) == 3


def test_a_gang_that_prepares_is_bound_when_it_is_ready():
    engine = fleet(4)
    form(engine, "team", 2)
    arrive(engine, *members("team", 2, 1000, prepare=("disk",)))
    front = Front(engine)
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
    found["recounted"] = cluster.counters.recounted(
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
    assert len(holds(step(engine, 0))) == 12
    before = bits(engine)
    form(engine, "team", 12, topology=topology, release_after_ns=1)
    assert len(holds(step(engine, 60 * SECOND))) == 12
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
    assert len(binds(tried(engine, *members("team", 5)))) == 5


def test_members_beyond_the_minimum_that_find_no_room_wait_for_it():
    engine = fleet(3)
    form(engine, "team", 2)
    assert len(binds(tried(engine, *members("team", 4)))) == 3
    waiting = [uid for uid, state in states(engine).items() if state == "waiting"]
    assert len(waiting) == 1
    engine.apply(HostJoined(host=host("b")))
    front = Front(engine)
    front.settle(60 * SECOND)
    assert places(engine, *waiting) == ["b"]


def test_members_that_come_late_join_a_running_gang():
    engine = fleet(8)
    form(engine, "team", 2)
    tried(engine, *members("team", 2))
    assert binds(tried(engine, wants("late", 1000, gang="team"), now=SECOND)) == {"late": "a"}


def test_late_members_come_one_by_one_and_not_all_or_nothing():
    engine = fleet(4)
    form(engine, "team", 2)
    tried(engine, *members("team", 2))
    actions = tried(engine, *members("team", 3, 1000, first=2), now=SECOND)
    assert (len(binds(actions)), len(holds(actions))) == (2, 1)


def test_no_more_than_the_maximum_are_placed_the_oldest_first():
    engine = fleet(8)
    form(engine, "team", 2, max_count=3)
    assert sorted(binds(tried(engine, *members("team", 5)))) == ["team-0", "team-1", "team-2"]
    assert sorted(uid for uid in states(engine) if not engine.decision(uid).host) == ["team-3", "team-4"]


def test_members_beyond_the_maximum_are_told_so():
    engine = fleet(8)
    form(engine, "team", 2, max_count=2)
    tried(engine, *members("team", 3))
    assert engine.decision("team-2").note == "gang default/team has its maximum of members"


def test_members_beyond_the_maximum_take_the_place_of_one_that_left():
    engine = fleet(8)
    form(engine, "team", 2, max_count=2)
    tried(engine, *members("team", 4))
    leave(engine, "team-0")
    assert binds(step(engine, SECOND)) == {"team-2": "a"}


def test_a_raised_maximum_lets_more_members_in():
    engine = fleet(8)
    form(engine, "team", 2, max_count=2)
    tried(engine, *members("team", 4))
    form(engine, "team", 2, max_count=3)
    assert binds(step(engine, SECOND)) == {"team-2": "a"}


def test_a_gang_at_its_maximum_is_not_due():
    engine = fleet(8)
    form(engine, "team", 2, max_count=2)
    arrive(engine, *members("team", 4))
    front = Front(engine)
    front.settle(600 * SECOND, most=10)
    assert step(engine, 1200 * SECOND) == []


# -- changes ----------------------------------------------------------------------------------------------------------


def test_a_lowered_minimum_wakes_the_gang():
    # Scenario 21.
    engine = fleet(3)
    form(engine, "team", 4)
    assert binds(tried(engine, *members("team", 4))) == {}
    form(engine, "team", 3)
    assert len(binds(step(engine, SECOND))) == 3


def test_a_lowered_minimum_lets_a_gated_gang_go():
    engine = fleet(8)
    form(engine, "team", 4)
    tried(engine, *members("team", 2))
    form(engine, "team", 2)
    assert len(binds(step(engine, SECOND))) == 2


def test_a_raised_minimum_counts_for_the_next_cycle():
    engine = fleet(8)
    form(engine, "team", 2)
    arrive(engine, *members("team", 2))
    form(engine, "team", 3)
    assert step(engine, 0) == []
    assert len(binds(tried(engine, wants("team-2", 1000, gang="team")))) == 3


def test_a_raised_minimum_leaves_a_running_gang_alone():
    engine = fleet(8)
    form(engine, "team", 2)
    tried(engine, *members("team", 2))
    form(engine, "team", 3)
    assert step(engine, 60 * SECOND) == []
    assert states(engine) == {"team-0": "assumed", "team-1": "assumed"}
    assert binds(tried(engine, wants("team-2", 1000, gang="team"))) == {"team-2": "a"}


def test_a_member_added_while_the_gang_waits_counts_at_once():
    engine = fleet(4)
    form(engine, "team", 2)
    assert binds(tried(engine, *members("team", 2, 3000))) == {}
    assert binds(tried(engine, wants("small", 1000, gang="team"), now=SECOND)).keys() >= {"small"}


def test_members_of_a_gang_that_is_gone_wait_for_it():
    engine = fleet(2)
    form(engine, "team", 3)
    tried(engine, *members("team", 3))
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
    tried(engine, *members("team", 2))
    engine.apply(GangLeft(key="default/team"))
    assert step(engine, 60 * SECOND) == []
    assert places(engine, "team-0", "team-1") == ["a", "a"]


def test_a_member_that_somebody_else_bound_counts():
    engine = fleet(2, 2)
    form(engine, "team", 4)
    runs(engine, "b", wants("old", 1000))
    assert binds(tried(engine, *members("team", 4))) == {}
    engine.apply(GuestBound(uid="team-3", host="b"))
    engine.apply(GuestLeft(uid="old"))
    front = Front(engine)
    front.settle(60 * SECOND)
    assert sorted(places(engine, *(f"team-{i}" for i in range(4)))) == ["a", "a", "b", "b"]


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


def test_without_one_of_its_own_a_gang_has_the_lowest_priority_of_its_members():
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
    front = Front(engine)
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
    front = Front(engine)
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
    tried(engine, *members("big", 4))
    assert binds(tried(engine, wants("small", 3000))) == {"small": "a"}


@pytest.mark.parametrize(("priority", "passes"), [(0, False), (-1, False), (1, True)])
def test_a_big_gang_that_reserves_keeps_its_room_from_equal_and_lower_ones(priority, passes):
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line="reserve")
    tried(engine, *members("big", 4))
    assert held_for(engine) == {"a": [f"nomination:big-{i}" for i in range(3)]}
    assert bool(binds(tried(engine, wants("small", 3000, priority)))) is passes


def test_a_gang_that_reserves_is_placed_when_the_rest_is_free():
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line="reserve")
    tried(engine, *members("big", 4))
    assert binds(tried(engine, wants("small", 1000), now=30 * SECOND)) == {}
    leave(engine, "old")
    assert len(binds(step(engine, 31 * SECOND))) == 4
    assert held_for(engine) == {}


def test_what_becomes_free_while_a_reserving_gang_is_in_backoff_is_kept_for_it_too():
    # "Keeps guests of lower and equal priority from taking what it waits for."
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line="reserve")
    tried(engine, *members("big", 4))
    leave(engine, "old")
    assert "small" not in binds(tried(engine, wants("small", 1000)))
    front = Front(engine)
    front.settle(60 * SECOND)
    assert places(engine, *(f"big-{i}" for i in range(4)), "small") == ["a"] * 4 + [""]
    assert held_for(engine) == {}


def test_what_a_gang_reserves_is_kept_by_the_gangs_priority():
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line="reserve", priority=9)
    tried(engine, *members("big", 4))
    assert binds(tried(engine, wants("small", 3000, 5))) == {}


def test_a_reserving_gang_is_tried_no_earlier_than_it_is_due():
    engine = fleet(4, 1)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 5, head_of_line="reserve")
    tried(engine, *members("big", 5), wants("huge", 99000))
    for now in range(1, 10):
        arrive(engine, wants(f"other-{now}", 0))
        step(engine, now * SECOND // 4)
        at = engine.next_due()
        if at is not None and at > engine.now:
            assert engine.fork().step(at - 1) == []


def test_one_gang_reserves_at_a_time():
    engine = fleet(4, 4)
    runs(engine, "a", wants("old", 2000))
    form(engine, "one", 7, head_of_line="reserve")
    form(engine, "two", 7, head_of_line="reserve")
    tried(engine, *members("one", 7), *members("two", 7))
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
    tried(engine, *members("one", 4))
    end_reserving(engine, how)
    front = Front(engine)
    front.settle(30 * SECOND)
    assert held_for(engine) == {}
    assert binds(tried(engine, wants("small", 3000))) == {"small": "a"}


@pytest.mark.parametrize("how", ["gang leaves", "members leave", "quorum lost"])
def test_the_next_gang_may_reserve_when_the_first_one_no_longer_does(how):
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "one", 4, head_of_line="reserve")
    form(engine, "two", 4, head_of_line="reserve")
    tried(engine, *members("one", 4), *members("two", 4))
    end_reserving(engine, how)
    front = Front(engine)
    front.settle(60 * SECOND)
    kept = {name.split("-")[0] for names in held_for(engine).values() for name in names}
    assert kept == {"nomination:two"}


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_member_whose_bind_failed_is_placed_again_and_the_others_stay():
    engine = fleet(8)
    form(engine, "team", 2)
    tried(engine, *members("team", 2))
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
    for uid in binds(tried(engine, *members("team", 3))):
        engine.apply(BindFailed(uid=uid, host="a"))
    assert held_for(engine) == {}
    assert binds(tried(engine, wants("other", 8000))) == {"other": "a"}
    assert set(engine.state.gangs.broken_since) == set()


def test_a_gang_whose_binds_all_failed_needs_its_whole_minimum_again():
    engine = fleet(8)
    form(engine, "team", 3)
    for uid in binds(tried(engine, *members("team", 3))):
        engine.apply(BindFailed(uid=uid, host="a"))
    runs(engine, "a", wants("other", 6000))
    front = Front(engine)
    front.settle(60 * SECOND)
    assert places(engine, *(f"team-{i}" for i in range(3))) == ["", "", ""]


@pytest.mark.parametrize("how", ["quorum lost", "gang gone"])
def test_a_failed_bind_does_not_queue_a_gang_that_cannot_be_tried(how):
    engine = fleet(8)
    form(engine, "team", 2)
    tried(engine, *members("team", 2))
    if how == "quorum lost":
        leave(engine, "team-0")
    else:
        engine.apply(GangLeft(key="default/team"))
    engine.apply(BindFailed(uid="team-1", host="a"))
    assert states(engine)["team-1"] == "gated"
    assert "gang:default/team" not in engine.state.queue.entries


def test_a_bind_that_fails_after_its_host_left_is_tried_elsewhere_after_the_backoff():
    # Scenario 13, with a gang.
    engine = fleet(2, 2)
    form(engine, "team", 2)
    assert set(binds(tried(engine, *members("team", 2))).values()) == {"a"}
    engine.apply(HostLeft(name="a"))
    assert step(engine, SECOND) == []
    for uid in ("team-0", "team-1"):
        engine.apply(BindFailed(uid=uid, host="a", reason="the host is gone", at=2 * SECOND))
    front = Front(engine)
    front.settle(30 * SECOND)
    assert places(engine, "team-0", "team-1") == ["b", "b"]


def test_a_host_that_is_lost_parks_the_members_and_their_end_lets_others_take_over():
    engine = fleet(2, 2)
    form(engine, "team", 2)
    front = Front(engine)
    arrive(engine, *members("team", 2))
    front.step()
    engine.apply(HostLeft(name="a"))
    assert front.step(60 * SECOND) == []
    assert set(states(engine).values()) == {"parked"}
    leave(engine, "team-0", "team-1")
    assert len(binds(tried(engine, *members("team", 2, 1000, first=2)))) == 2


def test_a_member_deleted_while_all_others_are_still_prepared_releases_them():
    # Scenario 20: below the minimum and none bound, so all are released now.
    engine = fleet(8)
    form(engine, "team", 3)
    arrive(engine, *members("team", 3, 1000, prepare=("disk",)))
    step(engine, 0)
    leave(engine, "team-0")
    step(engine, SECOND)
    assert places(engine, "team-1", "team-2") == ["", ""]


def test_a_member_deleted_while_others_are_bound_leaves_those_to_the_policy():
    # Scenario 20: bound ones follow the policy, here keep.
    engine = fleet(8)
    form(engine, "team", 3)
    front = Front(engine)
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
    found = binds(tried(engine, *members("team", 4)))
    engine.apply(GuestBound(uid="team-0", host=found["team-0"]))
    engine.apply(GuestBound(uid="team-1", host=found["team-1"]))
    again = Engine.restore(engine.checkpoint())
    assert step(again, SECOND) == []
    again.apply(BindFailed(uid="team-2", host="a", at=SECOND))
    again.apply(GuestBound(uid="team-3", host="a", at=SECOND))
    front = Front(again)
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


def test_a_gang_rebuilt_from_what_runs_holds_nothing_for_a_rest_that_does_not_fit():
    engine = fleet(3)
    form(engine, "team", 4)
    for i in range(4):
        there = "a" if i < 2 else ""
        engine.apply(GuestArrived(guest=wants(f"team-{i}", 1000, gang="team", host=there)))
    assert binds(step(engine, 0)) == {}
    assert binds(tried(engine, wants("other", 1000))) == {"other": "a"}


@pytest.mark.parametrize("head_of_line", ["skip", "reserve"])
def test_a_waiting_gang_survives_a_restart(head_of_line):
    engine = fleet(4)
    runs(engine, "a", wants("old", 1000))
    form(engine, "big", 4, head_of_line=head_of_line)
    tried(engine, *members("big", 4))
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
