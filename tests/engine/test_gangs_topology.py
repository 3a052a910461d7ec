"""Gangs confined to one domain: a rack, a zone, or whatever a label names."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.model import GuestTerm, HostChanged, HostJoined, HostsJoined
from tests.engine.fleet import SECOND, arrive, binds, engine_with, host, reasons, step
from tests.engine.gang_instances import SimpleFront, app, form, leave, members, places, preempting, runs, wants


def racks(engine_policy: str = "first_fit", **cores: tuple[int, ...]) -> Engine:
    """Return an engine with racks, each a tuple of its hosts' cores; hosts are named x0, x1, ... after their rack."""
    hosts = [
        host(f"{rack}{i}", cpu=1000 * n, labels={"rack": rack})
        for rack, sizes in cores.items()
        for i, n in enumerate(sizes)
    ]
    return engine_with(hosts, engine_policy)


def decide_arrivals(engine: Engine, *guests, now: int | None = None) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now if now is None else now)


def racks_of(found: dict[str, str]) -> set[str]:
    return {name[0] for name in found.values()}


def test_a_gang_confined_to_a_rack_runs_in_one():
    engine = racks(x=(2, 1), y=(2, 2))
    form(engine, "team", 4, topology="rack")
    assert racks_of(binds(decide_arrivals(engine, *members("team", 4)))) == {"y"}


def test_a_gang_not_confined_runs_anywhere():
    engine = racks(x=(2, 1), y=(2, 2))
    form(engine, "team", 4)
    assert racks_of(binds(decide_arrivals(engine, *members("team", 4)))) == {"x", "y"}


def test_gang_that_no_rack_can_hold_waits_and_names_the_closest_rack():
    engine = racks(x=(2, 1), y=(2, 2))
    form(engine, "team", 5, topology="rack")
    assert binds(decide_arrivals(engine, *members("team", 5))) == {}
    notes = {engine.decision(f"team-{i}").note for i in range(5)}
    lacking = "gang default/team needs 1 more of its members placed in rack=y"
    assert notes == {lacking, f"fits, but {lacking}"}


def test_of_the_racks_that_hold_the_gang_the_tightest_is_chosen():
    engine = racks(x=(8,), y=(4,), z=(2,))
    form(engine, "team", 3, topology="rack")
    assert racks_of(binds(decide_arrivals(engine, *members("team", 3)))) == {"y"}


def test_a_rack_that_holds_all_members_beats_one_that_holds_the_minimum():
    engine = racks(x=(2,), y=(4,))
    form(engine, "team", 2, topology="rack")
    assert binds(decide_arrivals(engine, *members("team", 4))) == {f"team-{i}": "y0" for i in range(4)}


def test_where_no_rack_holds_all_members_the_one_that_holds_most_is_chosen():
    engine = racks(x=(2,), y=(3,), z=(2,))
    form(engine, "team", 2, topology="rack")
    assert set(binds(decide_arrivals(engine, *members("team", 5))).values()) == {"y0"}


def test_hosts_without_the_label_are_in_no_domain():
    engine = engine_with([host("bare", cpu=64000)], "first_fit")
    form(engine, "team", 2, topology="rack")
    actions = decide_arrivals(engine, *members("team", 2))
    assert binds(actions) == {}
    assert all(sum(reasons(action).values()) == 1 for action in actions)


def test_late_members_join_the_rack_that_the_gang_runs_in():
    engine = racks(x=(4,), y=(8,))
    form(engine, "team", 2, topology="rack")
    assert racks_of(binds(decide_arrivals(engine, *members("team", 2)))) == {"x"}
    assert binds(decide_arrivals(engine, *members("team", 2, 1000, first=2))) == {"team-2": "x0", "team-3": "x0"}
    assert binds(decide_arrivals(engine, *members("team", 1, 1000, first=4))) == {}


def test_members_that_run_already_choose_the_rack():
    engine = racks(x=(2,), y=(8,))
    form(engine, "team", 3, topology="rack")
    runs(engine, "y0", wants("team-0", 1000, gang="team"))
    assert set(binds(decide_arrivals(engine, *members("team", 2, 1000, first=1))).values()) == {"y0"}


def test_a_gang_moves_on_to_another_rack_only_when_all_of_it_has_left():
    engine = racks(x=(2,), y=(2,))
    form(engine, "team", 2, topology="rack")
    front = SimpleFront(engine)
    arrive(engine, *members("team", 2))
    front.step()
    leave(engine, "team-0")
    runs(engine, "x0", wants("other", 1000))
    arrive(engine, wants("team-2", 1000, gang="team"))
    front.settle(30 * SECOND)
    assert places(engine, "team-1", "team-2") == ["x0", ""]
    leave(engine, "team-1")
    arrive(engine, wants("team-3", 1000, gang="team"))
    front.settle(90 * SECOND)
    assert places(engine, "team-2", "team-3") == ["y0", "y0"]


def test_a_rack_that_grows_takes_the_gang():
    engine = racks(x=(2,), y=(1,))
    form(engine, "team", 3, topology="rack")
    decide_arrivals(engine, *members("team", 3))
    engine.apply(HostJoined(host=host("y1", cpu=2000, labels={"rack": "y"})))
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert {name[0] for name in places(engine, "team-0", "team-1", "team-2")} == {"y"}


def test_a_host_that_moves_to_another_rack_counts_there():
    engine = racks(x=(2,), y=(2,))
    form(engine, "team", 4, topology="rack")
    decide_arrivals(engine, *members("team", 4))
    engine.apply(HostChanged(host=host("y0", cpu=2000, labels={"rack": "x"})))
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert sorted(places(engine, *(f"team-{i}" for i in range(4)))) == ["x0", "x0", "y0", "y0"]


def test_a_gang_confined_to_a_rack_keeps_its_other_constraints():
    engine = racks(x=(4, 4), y=(4, 4, 4))
    for h in list(engine.hosts()):
        engine.apply(HostChanged(host=host(h.name, labels={"rack": h.name[0], "host": h.name})))
    form(engine, "team", 3, topology="rack")
    apart = {"app": "web", "anti_affinity": (GuestTerm("host", app("web")),)}
    found = binds(decide_arrivals(engine, *members("team", 3, 1000, **apart)))
    assert sorted(found.values()) == ["y0", "y1", "y2"]


def test_a_gang_confined_to_a_rack_finds_a_place_that_takes_a_search():
    # The largest first would give 5 + 4 and 4 + 3 + 2, and leave a 2 over; 5 + 3 + 2 and 4 + 4 + 2 do fit.
    engine = racks(x=(10, 10), y=(9, 9, 1))
    form(engine, "team", 6, topology="rack")
    team = [wants(f"team-{i}", 1000 * cores, gang="team") for i, cores in enumerate((5, 4, 4, 3, 2, 2))]
    found = binds(decide_arrivals(engine, *team))
    assert len(found) == 6
    assert racks_of(found) == {"x"}


@pytest.mark.parametrize("count", [10, 63, 64, 65, 100])
def test_the_one_free_rack_is_found_among_many(count):
    # All racks but the roomiest are full; it is the last one where the tightest come first.
    hosts = [host(f"h{i:03}", cpu=4000, labels={"rack": f"r{i:03}"}) for i in range(count)]
    engine = engine_with([], "first_fit")
    engine.apply(HostsJoined(hosts=tuple(hosts)))
    for i in range(count - 1):
        runs(engine, f"h{i:03}", wants(f"old-{i}", 4000))
    form(engine, "team", 2, topology="rack")
    assert set(binds(decide_arrivals(engine, *members("team", 2))).values()) == {f"h{count - 1:03}"}


def test_a_refused_gang_leaves_no_confinement_behind():
    engine = racks(x=(2,), y=(2,))
    form(engine, "team", 3, topology="rack")
    decide_arrivals(engine, *members("team", 3))
    # A guest of the same shape, in no gang, may go anywhere.
    found = binds(decide_arrivals(engine, *(wants(f"free-{i}", 1000) for i in range(4))))
    assert sorted(found.values()) == ["x0", "x0", "y0", "y0"]


def test_the_domain_may_be_any_label():
    hosts = [host("a", cpu=2000, labels={"zone": "1"}), host("b", cpu=2000, labels={"zone": "1"}), host("c", cpu=3000)]
    engine = engine_with(hosts, "first_fit")
    form(engine, "team", 4, topology="zone")
    assert sorted(binds(decide_arrivals(engine, *members("team", 4))).values()) == ["a", "a", "b", "b"]


def test_explaining_a_waiting_member_leaves_no_trace():
    engine = engine_with(
        [host(f"{rack}{i}", cpu=2000, labels={"rack": rack}) for rack in "xy" for i in range(2)], preempting()
    )
    runs(engine, "x0", wants("old", 1000))
    runs(engine, "y0", wants("dear", 1000, 99))
    form(engine, "team", 4, topology="rack")
    arrive(engine, *members("team", 4, priority=5))
    twin = engine.fork()
    before = engine.checkpoint()
    explained = engine.explain("team-0")
    assert engine.checkpoint() == before
    assert explained.gang is not None
    assert (explained.gang.topology, explained.gang.would_place) == ("rack", 3)
    inside = {verdict.host for verdict in explained.verdicts if verdict.fits}
    assert {name[0] for name in inside} == {explained.gang.domain}
    outside = [verdict for verdict in explained.verdicts if verdict.host not in inside]
    assert all(verdict.failures[0].reason.code == "outside_the_domain" for verdict in outside)
    assert explained.eviction is not None
    assert (explained.eviction.victims, explained.eviction.host) == (("old",), "x0")
    assert step(engine, 0) == step(twin, 0)
    assert list(engine.state.evicting) == ["old"]
