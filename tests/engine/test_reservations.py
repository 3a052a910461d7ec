"""Reservations: room on hosts for a tenant, a gang or selected guests, from a start to an end."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.errors import FactError, UnknownNameError
from hostler.model import (
    BindFailed,
    Expression,
    HostChanged,
    HostJoined,
    HostLeft,
    HostShare,
    HostsJoined,
    PolicyChanged,
    Reservation,
    ReservationChanged,
    ReservationLeft,
    Term,
    amounts,
)
from tests.engine.fleet import (
    GIB,
    SECOND,
    arrive,
    binds,
    due,
    engine_with,
    guest,
    holds,
    host,
    policy,
    reasons,
    states,
    step,
)
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


def reserve(engine: Engine, name: str, cores: int, **fields) -> None:
    fields.setdefault("amounts", amounts({"cpu": 1000 * cores}))
    engine.apply(ReservationChanged(reservation=Reservation(name=name, **fields)))


def fleet(*cores: int, chosen="first_fit") -> Engine:
    names = "abcdefgh"
    hosts = [host(names[i], cpu=1000 * n, labels={"name": names[i]}) for i, n in enumerate(cores)]
    return engine_with(hosts, chosen)


def decide_arrivals(engine: Engine, *guests, now: int | None = None) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now if now is None else now)


def on(*names: str) -> tuple[Term, ...]:
    return (Term((Expression("name", "In", names),)),)


# -- shares of single hosts ----------------------------------------------------------------------------------------


def test_shares_hold_another_amount_on_each_host():
    engine = fleet(4, 4, 4)
    cores = lambda n: amounts({"cpu": 1000 * n})  # noqa: E731
    reserve(engine, "r", 0, tenant="t", amounts=(), shares=(HostShare("a", cores(3)), HostShare("c", cores(1))))
    assert [engine.view.reserved_on(name) for name in "abc"] == [{"r": {"cpu": 3000}}, {}, {"r": {"cpu": 1000}}]
    actions = decide_arrivals(engine, *(wants(f"g{i}", 3000) for i in range(3)))
    assert (binds(actions), holds(actions)) == ({"g0": "b", "g1": "c"}, ["g2"])
    twin = Engine.restore(engine.checkpoint())
    assert [twin.view.reserved_on(name) for name in "abc"] == [{"r": {"cpu": 3000}}, {}, {"r": {"cpu": 1000}}]
    engine.apply(ReservationLeft(name="r"))
    assert not any(engine.view.reserved_on(name) for name in "abc")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"shares": (("b", ()), ("a", ()))}, "shares are not in order of host"),
        ({"shares": (("a", ()), ("a", ()))}, "shares are not in order of host"),
        ({"shares": (("", ()),)}, "a share has no host"),
        ({"shares": (("a", (("cpu", -1),)),)}, "not between 0 and"),
        ({"shares": (("a", (("guests", 1),)),)}, "reserves guests"),
        ({"shares": (("a", ()),), "amounts": (("cpu", 1),)}, "shares beside amounts"),
    ],
)
def test_shares_that_contradict_themselves_are_rejected(fields, problem):
    with pytest.raises(FactError, match=problem):
        reserve(fleet(4), "r", 0, tenant="t", **{"amounts": (), **fields})


# -- for whom ---------------------------------------------------------------------------------------------------------


def test_what_is_reserved_counts_as_used_for_all_others():
    engine = fleet(4)
    reserve(engine, "r", 3, tenant="t")
    actions = decide_arrivals(engine, *(wants(f"g{i}", 1000) for i in range(2)))
    assert (list(binds(actions)), holds(actions)) == (["g0"], ["g1"])
    assert reasons(engine.decision("g1")) == {"resources: insufficient: cpu": 1}


def test_what_is_reserved_for_a_tenant_is_for_its_guests():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t")
    assert binds(decide_arrivals(engine, wants("other", 1000, tenant="u"))) == {}
    assert len(binds(decide_arrivals(engine, *(wants(f"t{i}", 1000, tenant="t") for i in range(4))))) == 4


def test_what_is_reserved_for_selected_guests_is_for_them():
    engine = fleet(4)
    reserve(engine, "r", 4, selector=app("web"))
    assert binds(decide_arrivals(engine, wants("db", 1000, app="db"))) == {}
    assert binds(decide_arrivals(engine, wants("web", 1000, app="web"))) == {"web": "a"}


def test_what_is_reserved_for_a_gang_is_for_its_members():
    engine = fleet(4)
    reserve(engine, "r", 4, gang="default/team")
    form(engine, "team", 3)
    assert binds(decide_arrivals(engine, wants("other", 1000))) == {}
    assert len(binds(decide_arrivals(engine, *members("team", 3)))) == 3


def test_guests_of_equal_shape_outside_the_gang_get_none_of_its_room():
    engine = fleet(4)
    reserve(engine, "r", 4, gang="default/team")
    form(engine, "team", 3)
    assert len(binds(decide_arrivals(engine, *members("team", 3)))) == 3
    assert binds(decide_arrivals(engine, wants("alike", 1000))) == {}
    assert binds(decide_arrivals(engine, wants("team-9", 1000, gang="team"))) == {"team-9": "a"}


def test_gang_of_equal_shapes_does_not_get_anothers_reservation():
    engine = fleet(4)
    reserve(engine, "r", 4, gang="default/team")
    form(engine, "team", 2)
    form(engine, "rivals", 2)
    found = binds(decide_arrivals(engine, *members("rivals", 2), *members("team", 2)))
    assert sorted(found) == ["team-0", "team-1"]


def test_a_gang_that_is_refused_lends_its_pass_to_nobody():
    engine = fleet(4)
    reserve(engine, "r", 4, gang="default/team")
    form(engine, "team", 5)
    assert len(holds(decide_arrivals(engine, *members("team", 5)))) == 5
    assert binds(decide_arrivals(engine, wants("alike", 1000))) == {}


def test_members_that_do_not_reach_their_minimum_use_nothing_of_it():
    engine = fleet(4)
    reserve(engine, "r", 4, gang="default/team")
    form(engine, "team", 5)
    decide_arrivals(engine, *members("team", 5))
    assert engine.state.cluster.used(0, engine.state.tables.resources.number("cpu")) == 0
    assert set(held_for(engine)) == {"a"}


def test_any_of_tenant_gang_and_selector_will_do():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", selector=app("web"))
    assert len(binds(decide_arrivals(engine, wants("t0", 1000, tenant="t"), wants("web", 1000, app="web")))) == 2


def test_those_it_is_for_are_not_confined_to_what_is_reserved():
    engine = fleet(4, 4)
    reserve(engine, "r", 2, tenant="t", hosts=on("a"))
    assert binds(decide_arrivals(engine, wants("t0", 4000, tenant="t"))) == {"t0": "a"}
    assert binds(decide_arrivals(engine, wants("t1", 4000, tenant="t"))) == {"t1": "b"}


def test_priority_does_not_break_a_reservation():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t")
    assert binds(decide_arrivals(engine, wants("top", 1000, 2**30))) == {}


def test_two_reservations_on_a_host_add_up():
    engine = fleet(4)
    reserve(engine, "r", 2, tenant="t")
    reserve(engine, "s", 1, tenant="u")
    assert binds(decide_arrivals(engine, wants("g", 2000))) == {}
    assert binds(decide_arrivals(engine, wants("g1", 1000))) == {"g1": "a"}
    assert binds(decide_arrivals(engine, wants("t0", 2000, tenant="t"))) == {"t0": "a"}
    assert binds(decide_arrivals(engine, wants("t1", 1000, tenant="t"))) == {}


def test_a_guest_that_two_reservations_are_for_uses_both():
    engine = fleet(4)
    reserve(engine, "r", 2, tenant="t")
    reserve(engine, "s", 2, selector=app("web"))
    assert binds(decide_arrivals(engine, wants("both", 4000, tenant="t", app="web"))) == {"both": "a"}


def test_a_resource_that_is_not_reserved_is_free_for_all():
    engine = fleet(4)
    reserve(engine, "r", 0, tenant="t", amounts=amounts({"memory": 4 * GIB}))
    assert binds(decide_arrivals(engine, wants("cpu", 4000))) == {"cpu": "a"}
    assert binds(decide_arrivals(engine, guest("memory", cpu=0, memory=1))) == {}


# -- consumed ---------------------------------------------------------------------------------------------------------


def test_what_is_reserved_is_consumed_by_those_it_is_for():
    engine = fleet(4)
    reserve(engine, "r", 2, tenant="t")
    decide_arrivals(engine, wants("t0", 1000, tenant="t"))
    # One core is used, one is still reserved, two are free.
    assert len(binds(decide_arrivals(engine, *(wants(f"g{i}", 1000) for i in range(3))))) == 2
    assert binds(decide_arrivals(engine, wants("t1", 1000, tenant="t"))) == {"t1": "a"}


def test_guests_that_run_already_have_consumed_their_part():
    engine = fleet(4)
    runs(engine, "a", *(wants(f"t{i}", 1000, tenant="t") for i in range(2)))
    reserve(engine, "r", 2, tenant="t")
    assert held_for(engine) == {}
    assert len(binds(decide_arrivals(engine, *(wants(f"g{i}", 1000) for i in range(2))))) == 2


def test_what_was_consumed_is_reserved_again_when_the_guest_leaves():
    engine = fleet(4)
    reserve(engine, "r", 2, tenant="t")
    decide_arrivals(engine, wants("t0", 2000, tenant="t"), wants("g", 2000))
    leave(engine, "t0")
    assert binds(decide_arrivals(engine, wants("g1", 1000))) == {}
    assert binds(decide_arrivals(engine, wants("t1", 2000, tenant="t"))) == {"t1": "a"}


def test_what_was_consumed_is_reserved_again_when_a_bind_fails():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t")
    decide_arrivals(engine, wants("t0", 4000, tenant="t"))
    engine.apply(BindFailed(uid="t0", host="a"))
    assert binds(decide_arrivals(engine, wants("g", 1000))) == {}


def test_consuming_more_than_is_reserved_leaves_nothing_held():
    engine = fleet(4)
    reserve(engine, "r", 2, tenant="t")
    decide_arrivals(engine, wants("t0", 3000, tenant="t"))
    assert held_for(engine) == {}
    assert binds(decide_arrivals(engine, wants("g", 1000))) == {"g": "a"}


def test_guests_of_one_step_see_what_the_ones_before_them_consumed():
    engine = fleet(4)
    reserve(engine, "r", 2, tenant="t")
    arrive(engine, wants("t0", 2000, tenant="t"), wants("g0", 2000), wants("g1", 1000), wants("t1", 1000, tenant="t"))
    twin = engine.fork()
    single: list = []
    while more := twin.step(0, 1):
        single += more
    assert step(engine, 0) == single
    assert binds(single) == {"t0": "a", "g0": "a"}


# -- hosts ------------------------------------------------------------------------------------------------------------


def test_a_reservation_holds_on_every_matching_host():
    engine = fleet(4, 4, 4)
    reserve(engine, "r", 4, tenant="t", hosts=on("a", "c"))
    assert set(held_for(engine)) == {"a", "c"}
    assert set(binds(decide_arrivals(engine, *(wants(f"g{i}", 4000) for i in range(3)))).values()) == {"b"}


def test_any_of_several_terms_will_do():
    engine = fleet(4, 4, 4)
    reserve(engine, "r", 4, tenant="t", hosts=(*on("a"), *on("b")))
    assert set(held_for(engine)) == {"a", "b"}


def test_hosts_that_join_later_are_reserved_too():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", hosts=on("x", "y"))
    engine.apply(HostJoined(host=host("x", labels={"name": "x"})))
    engine.apply(HostsJoined(hosts=(host("y", labels={"name": "y"}), host("z", labels={"name": "z"}))))
    assert set(held_for(engine)) == {"x", "y"}


def test_a_host_that_comes_back_is_reserved_again_less_what_runs_there():
    engine = fleet(4)
    reserve(engine, "r", 3, tenant="t")
    runs(engine, "a", wants("t0", 1000, tenant="t"))
    engine.apply(HostLeft(name="a"))
    assert held_for(engine) == {}
    engine.apply(HostJoined(host=host("a")))
    assert len(binds(decide_arrivals(engine, *(wants(f"g{i}", 1000) for i in range(2))))) == 1


def test_a_host_whose_labels_change_is_reserved_from_then_on_or_no_longer():
    engine = fleet(4, 4)
    reserve(engine, "r", 4, tenant="t", hosts=on("a"))
    decide_arrivals(engine, wants("g0", 4000), wants("g1", 4000))
    engine.apply(HostChanged(host=host("a", labels={"name": "free"})))
    assert held_for(engine) == {}
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "g1") == ["a"]


def test_more_than_a_host_has_keeps_all_of_it():
    engine = fleet(4)
    reserve(engine, "r", 100, tenant="t")
    assert binds(decide_arrivals(engine, wants("g", 1))) == {}
    assert binds(decide_arrivals(engine, wants("t0", 4000, tenant="t"))) == {"t0": "a"}


def test_a_reservation_on_a_full_host_evicts_nobody():
    engine = fleet(4, chosen=preempting(reclaim=True))
    runs(engine, "a", *(wants(f"g{i}", 1000) for i in range(4)))
    reserve(engine, "r", 4, tenant="t")
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert front.evictions == []
    leave(engine, "g0")
    assert binds(decide_arrivals(engine, wants("g9", 1000))) == {}
    assert binds(decide_arrivals(engine, wants("t0", 1000, tenant="t"))) == {"t0": "a"}


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_reservation_begins_at_its_start():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", since=100 * SECOND)
    assert held_for(engine) == {}
    assert due(engine) == 100 * SECOND
    assert binds(decide_arrivals(engine, wants("early", 1000), now=99 * SECOND)) == {"early": "a"}
    assert binds(decide_arrivals(engine, wants("late", 1000), now=100 * SECOND)) == {}


def test_a_reservation_returns_at_its_end():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", until=100 * SECOND)
    decide_arrivals(engine, wants("g", 1000))
    assert due(engine) == 100 * SECOND
    assert binds(step(engine, 100 * SECOND - 1)) == {}
    assert binds(step(engine, 100 * SECOND)) == {"g": "a"}
    assert held_for(engine) == {}


def test_guests_stay_when_their_reservation_ends():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", until=100 * SECOND)
    decide_arrivals(engine, wants("t0", 4000, tenant="t"))
    assert step(engine, 100 * SECOND) == []
    assert states(engine) == {"t0": "assumed"}


def test_a_reservation_that_is_over_holds_nothing_on_hosts_that_join():
    engine = fleet()
    reserve(engine, "r", 4, tenant="t", until=10 * SECOND)
    step(engine, 20 * SECOND)
    engine.apply(HostJoined(host=host("a")))
    assert binds(decide_arrivals(engine, wants("g", 4000))) == {"g": "a"}


def test_a_reservation_that_is_over_when_it_is_reported_holds_nothing():
    engine = fleet(4)
    step(engine, 20 * SECOND)
    reserve(engine, "r", 4, tenant="t", until=10 * SECOND)
    assert held_for(engine) == {}


def test_a_start_and_an_end_both_count():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", since=10 * SECOND, until=20 * SECOND)
    held = []
    for now in (0, 9, 10, 19, 20, 30):
        step(engine, now * SECOND)
        held.append(bool(held_for(engine)))
    assert held == [False, False, True, True, False, False]


# -- change and removal -----------------------------------------------------------------------------------------------


def test_a_larger_reservation_keeps_more():
    engine = fleet(4)
    reserve(engine, "r", 1, tenant="t")
    reserve(engine, "r", 3, tenant="t")
    assert binds(decide_arrivals(engine, wants("g", 2000))) == {}
    assert binds(decide_arrivals(engine, wants("g1", 1000))) == {"g1": "a"}


def test_a_smaller_reservation_frees_room_for_those_who_wait():
    engine = fleet(4)
    reserve(engine, "r", 3, tenant="t")
    decide_arrivals(engine, wants("g", 3000))
    reserve(engine, "r", 1, tenant="t")
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "g") == ["a"]


def test_a_removed_reservation_frees_room_for_those_who_wait():
    engine = fleet(4)
    reserve(engine, "r", 3, tenant="t")
    decide_arrivals(engine, wants("g", 3000))
    engine.apply(ReservationLeft(name="r"))
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "g") == ["a"]
    assert held_for(engine) == {}


def test_a_reservation_may_change_whom_it_is_for():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t")
    decide_arrivals(engine, wants("u0", 1000, tenant="u"))
    reserve(engine, "r", 4, tenant="u")
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "u0") == ["a"]
    assert binds(decide_arrivals(engine, wants("t0", 1000, tenant="t"))) == {}


def test_a_reservation_may_change_where_it_is():
    engine = fleet(4, 4)
    reserve(engine, "r", 4, tenant="t", hosts=on("a"))
    reserve(engine, "r", 4, tenant="t", hosts=on("b"))
    assert set(held_for(engine)) == {"b"}


def test_a_reservation_may_last_longer_than_was_said():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", until=10 * SECOND)
    reserve(engine, "r", 4, tenant="t", until=50 * SECOND)
    step(engine, 20 * SECOND)
    assert held_for(engine) != {}
    step(engine, 50 * SECOND)
    assert held_for(engine) == {}


def test_a_reservation_may_end_earlier_than_was_said():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", until=50 * SECOND)
    reserve(engine, "r", 4, tenant="t", until=10 * SECOND)
    assert due(engine) == 10 * SECOND
    step(engine, 10 * SECOND)
    assert held_for(engine) == {}


def test_older_facts_about_a_reservation_change_nothing():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t", version=5)
    reserve(engine, "r", 1, tenant="t", version=4)
    assert binds(decide_arrivals(engine, wants("g", 1000))) == {}


def test_a_pass_that_is_used_again_is_for_the_new_reservation_only():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t")
    decide_arrivals(engine, wants("t0", 0, tenant="t"))
    engine.apply(ReservationLeft(name="r"))
    reserve(engine, "s", 4, tenant="u")
    assert binds(decide_arrivals(engine, wants("t1", 1000, tenant="t"))) == {}
    assert binds(decide_arrivals(engine, wants("u0", 1000, tenant="u"))) == {"u0": "a"}


def test_many_reservations_at_once():
    engine = fleet(40)
    for i in range(40):
        reserve(engine, f"r{i}", 1, tenant=f"t{i}")
    assert binds(decide_arrivals(engine, wants("g", 1))) == {}
    assert len(binds(decide_arrivals(engine, *(wants(f"t{i}", 1000, tenant=f"t{i}") for i in range(40))))) == 40


@pytest.mark.parametrize(
    "reservation",
    [
        pytest.param(Reservation(name="", tenant="t"), id="no-name"),
        pytest.param(Reservation(name="r"), id="for-nobody"),
        pytest.param(Reservation(name="r", tenant="t", amounts=(("cpu", -1),)), id="negative"),
        pytest.param(Reservation(name="r", tenant="t", amounts=(("cpu", 2**63),)), id="enormous"),
        pytest.param(Reservation(name="r", tenant="t", since=5, until=5), id="ends-as-it-starts"),
        pytest.param(Reservation(name="r", tenant="t", amounts=(("guests", 1),)), id="guests"),
    ],
)
def test_impossible_reservations_are_refused_and_change_nothing(reservation):
    engine = fleet(4)
    before = engine.checkpoint()
    with pytest.raises(FactError):
        engine.apply(ReservationChanged(reservation=reservation))
    assert engine.checkpoint() == before


def test_reservations_survive_a_restart():
    engine = fleet(4, 4)
    reserve(engine, "r", 3, tenant="t", until=100 * SECOND)
    reserve(engine, "s", 2, selector=app("web"), hosts=on("b"), since=50 * SECOND)
    decide_arrivals(engine, wants("t0", 1000, tenant="t"), wants("g", 4000))
    again = Engine.restore(engine.checkpoint())
    assert again.checkpoint() == engine.checkpoint()
    assert held_for(again) == held_for(engine)
    for now in (SECOND, 50 * SECOND, 100 * SECOND):
        for each in (engine, again):
            arrive(each, wants(f"g{now}", 2000), wants(f"t{now}", 1000, tenant="t"))
        assert step(again, now) == step(engine, now)
        assert held_for(again) == held_for(engine)
    assert again.checkpoint() == engine.checkpoint()


def test_a_fork_has_reservations_of_its_own():
    engine = fleet(4)
    reserve(engine, "r", 4, tenant="t")
    fork = engine.fork()
    fork.apply(ReservationLeft(name="r"))
    assert binds(decide_arrivals(fork, wants("g", 4000))) == {"g": "a"}
    assert binds(decide_arrivals(engine, wants("g", 4000))) == {}


@pytest.mark.parametrize("meanwhile", ["policies", "refused fact", "nothing"])
def test_reservations_for_guests_that_were_looked_at_before(meanwhile):
    engine = fleet(4)
    decide_arrivals(engine, wants("u0", 1000, tenant="u"))
    if meanwhile == "policies":
        engine.apply(PolicyChanged(policies=(policy("spread"),)))
    elif meanwhile == "refused fact":
        with pytest.raises(UnknownNameError):
            arrive(engine, guest("bad", more={"new": 1}, host_name="a", policy="unknown", tenant="v"))
    reserve(engine, "r", 1, tenant="t")
    reserve(engine, "s", 1, tenant="u")
    assert binds(decide_arrivals(engine, wants("g1", 3000))) == {}
    assert binds(decide_arrivals(engine, wants("u1", 2000, tenant="u"))) == {"u1": "a"}


def test_a_refusal_tells_how_much_is_held_and_by_what():
    engine = fleet(4)
    reserve(engine, "night", 3, tenant="ops")
    decide_arrivals(engine, guest("g", cpu=2000))
    (failure,) = engine.explain("g").verdicts[0].failures
    assert (failure.missing, failure.held, failure.by) == (1000, 3000, ("reservation:night",))
    assert "reservation night ends" in engine.explain("g").wakes
