"""Facts about guests: identity and version, guests that arrive with a place, change in place, and arrive at once."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.model import Answered, BindFailed, GuestArrived, GuestBound, GuestChanged, GuestLeft, HostJoined, Prepared
from tests.engine.fleet import (
    GIB,
    SECOND,
    arrive,
    batch,
    binds,
    books,
    devices_left,
    engine_with,
    guest,
    host,
    place,
    reasons,
    spec,
    states,
    used,
)
from tests.engine.traces import ONE, refused, unheard


def test_the_same_fact_about_a_guest_again_changes_nothing():
    engine = engine_with([host("a")])
    place(engine, guest("g", version=2))
    unheard(engine, GuestArrived(guest=guest("g", version=2)))
    unheard(engine, GuestChanged(guest=guest("g", version=2)))


def test_an_older_fact_about_a_guest_changes_nothing():
    engine = engine_with([host("a"), host("b")])
    place(engine, guest("g", version=2))
    unheard(engine, GuestChanged(guest=guest("g", cpu=2000, version=1)))
    unheard(engine, GuestChanged(guest=guest("g", host="b", version=1)))


def test_a_contradictory_fact_of_equal_version_about_a_guest_is_refused():
    engine = engine_with([host("a")])
    place(engine, guest("g", version=2))
    refused(engine, GuestChanged(guest=guest("g", cpu=2000, version=2)))


def test_a_batch_that_is_delivered_twice_changes_nothing_the_second_time():
    engine = engine_with([host("a")])
    engine.apply_many(batch([spec()], ["x", "y"]))
    unheard(engine, batch([spec()], ["x", "y"]))
    engine.step(0)
    unheard(engine, batch([spec()], ["x", "y"]))


def test_a_guest_that_left_never_comes_back():
    engine = engine_with([host("a")])
    place(engine, guest("g"))
    engine.apply(GuestLeft(uid="g"))
    unheard(engine, GuestArrived(guest=guest("g", version=9)))
    unheard(engine, GuestBound(uid="g", host="a"))
    assert used(engine, "a") == {}


def test_a_guest_whose_end_is_reported_before_its_arrival_never_arrives():
    engine = engine_with([host("a")])
    engine.apply(GuestLeft(uid="g"))
    engine.apply(GuestArrived(guest=guest("g")))
    engine.apply_many(batch([spec()], ["g"]))
    assert list(engine.guests()) == []
    assert engine.step(0) == []


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(GuestLeft(uid="nobody"), id="its end"),
        pytest.param(GuestBound(uid="nobody", host="a"), id="its bind"),
        pytest.param(BindFailed(uid="nobody", host="a"), id="its failed bind"),
        pytest.param(Answered(uid="nobody", ask=1), id="an answer"),
        pytest.param(Prepared(uid="nobody", host="a"), id="a preparation"),
    ],
)
def test_facts_about_unknown_guests_change_no_books(event):
    engine = engine_with([host("a")])
    before = books(engine)
    engine.apply(event)
    assert books(engine) == before
    assert engine.step(0) == []


@pytest.mark.parametrize("where", ["", "a", "away"])
def test_last_decision_can_be_read_after_the_guest_changed(where):
    engine = engine_with([host("a")])
    place(engine, guest("g", version=1, selector={"disk": "ssd", "zone": "x"}, gpu=(1, 500)))
    before = reasons(engine.decision("g"))
    engine.apply(GuestChanged(guest=guest("g", version=2, host=where)))
    assert reasons(engine.decision("g")) == before == {"host_affinity: selector mismatch: disk=ssd": 1}
    assert reasons(Engine.restore(engine.checkpoint()).decision("g")) == before


def test_a_guest_that_arrives_bound_is_booked_and_not_queued():
    engine = engine_with([host("a")])
    arrive(engine, guest("g", host="a"))
    assert used(engine, "a") == ONE
    assert engine.decision("g").state == "bound"
    assert engine.step(0) == []


def test_guest_bound_to_an_unknown_host_is_parked_until_it_joins():
    engine = engine_with([host("a")])
    arrive(engine, guest("g", host="later"))
    assert engine.decision("g").state == "parked"
    assert engine.step(0) == []
    engine.apply(HostJoined(host=host("later")))
    assert engine.decision("g").state == "bound"
    assert used(engine, "later") == ONE


def test_a_fact_without_a_host_never_unbinds_a_guest():
    engine = engine_with([host("a")])
    arrive(engine, guest("g", version=1, host="a"))
    engine.apply(GuestChanged(guest=guest("g", version=2, cpu=2000)))
    assert used(engine, "a") == {"guests": 1, "cpu": 2000, "memory": GIB}
    assert engine.decision("g").state == "bound"


def test_a_running_guest_is_resized_in_place():
    engine = engine_with([host("a", gpus=2)])
    arrive(engine, guest("g", version=1, host="a", cpu=3000, gpu=(1, 400)))
    engine.apply(GuestChanged(guest=guest("g", version=2, host="a", cpu=500, gpu=(1, 400))))
    assert used(engine, "a") == {"guests": 1, "cpu": 500, "memory": GIB}
    assert devices_left(engine, "a") == [600, 1000]
    engine.apply(GuestChanged(guest=guest("g", version=3, host="a", cpu=500, gpu=(2, 1000))))
    assert devices_left(engine, "a") == [0, 0]


def test_a_guest_confirmed_by_a_fact_of_its_own_is_bound():
    engine = engine_with([host("a")])
    place(engine, guest("g", version=1))
    engine.apply(GuestChanged(guest=guest("g", version=2, host="a")))
    assert engine.decision("g").state == "bound"
    assert used(engine, "a") == ONE


def test_facts_may_exceed_a_limit_and_decisions_do_not():
    engine = engine_with([host("a", cpu=2000)])
    arrive(engine, *(guest(f"g{i}", host="a") for i in range(5)))
    assert used(engine, "a")["cpu"] == 5000
    engine.apply(GuestArrived(guest=guest("late")))
    (hold,) = engine.step(0)
    assert reasons(hold) == {"resources: insufficient: cpu": 1}


def test_resource_first_named_by_a_late_guest_counts():
    engine = engine_with([host("a")])
    assert place(engine, guest("first")) == ["a"]
    engine.apply(GuestArrived(guest=guest("g", more={"license": 1})))
    (hold,) = engine.step(0)
    assert reasons(hold) == {"resources: insufficient: license": 1}
    engine.apply(HostJoined(host=host("b", more={"license": 1})))
    assert binds(engine.step(60 * SECOND)) == {"g": "b"}


def test_a_guest_may_ask_for_any_number_of_resources():
    many = {f"r{i}": 1 for i in range(20)}
    engine = engine_with([host("a")])
    assert place(engine, guest("first")) == ["a"]
    assert place(engine, guest("g", more=many)) == [""]
    engine.apply(HostJoined(host=host("b", more=many)))
    assert binds(engine.step(60 * SECOND)) == {"g": "b"}
    assert used(engine, "b") == ONE | many


def test_guests_that_arrive_at_once_equal_guests_one_by_one():
    hosts = [host("a"), host("b")]
    shapes = [spec(), spec(cpu=500), spec(cpu=9000)]
    one, many = engine_with(hosts), engine_with(hosts)
    names = [f"g{i}" for i in range(9)]
    arrive(one, *(guest(name, shapes[i % 3]) for i, name in enumerate(names)))
    many.apply_many(batch(shapes, names))
    assert books(one) == books(many)
    assert one.step(0) == many.step(0)


def test_guests_may_arrive_at_once_with_their_places():
    engine = engine_with([host("a")])
    engine.apply_many(batch([spec()], ["x", "y", "z"], hosts=("a", "", "away")))
    assert states(engine) == {"x": "bound", "y": "active", "z": "parked"}
