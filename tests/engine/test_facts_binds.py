"""Binds: carried out here, elsewhere or by another program, and binds that fail."""

from __future__ import annotations

from hostler.model import BindFailed, GuestBound, GuestChanged, HostJoined, HostLeft, Prepare, Prepared
from tests.engine.fleet import arrive, devices_left, engine_with, guest, host, place, used
from tests.engine.traces import ONE, unheard


def test_a_guest_bound_by_another_scheduler_leaves_the_queue():
    engine = engine_with([host("a"), host("b")])
    arrive(engine, guest("g", version=1))
    engine.apply(GuestChanged(guest=guest("g", version=2, host="b")))
    assert engine.step(0) == []
    assert used(engine, "b") == ONE


def test_a_pending_guest_reported_bound_is_booked_there():
    engine = engine_with([host("a"), host("b")])
    arrive(engine, guest("g"))
    engine.apply(GuestBound(uid="g", host="b"))
    assert engine.step(0) == []
    assert used(engine, "b") == ONE
    assert used(engine, "a") == {}


def test_a_guest_bound_elsewhere_than_we_decided_moves_its_booking():
    engine = engine_with([host("a"), host("b")])
    assert place(engine, guest("g")) == ["a"]
    engine.apply(GuestBound(uid="g", host="b"))
    assert used(engine, "a") == {}
    assert used(engine, "b") == ONE
    assert engine.decision("g").state == "bound"


def test_a_guest_bound_to_a_host_that_nobody_knows_is_parked_there():
    engine = engine_with([host("a")])
    place(engine, guest("g"))
    engine.apply(GuestBound(uid="g", host="elsewhere"))
    assert used(engine, "a") == {}
    assert engine.decision("g").state == "parked"


def test_a_failed_bind_gives_everything_back():
    engine = engine_with([host("a", gpus=2)])
    before = used(engine, "a"), devices_left(engine, "a")
    place(engine, guest("g", gpu=(1, 300)))
    engine.apply(BindFailed(uid="g", host="a", reason="no disk"))
    assert (used(engine, "a"), devices_left(engine, "a")) == before
    decision = engine.decision("g")
    assert (decision.state, decision.host, decision.devices) == ("backoff", "", ())
    assert "no disk" in decision.note


def test_a_failed_bind_of_another_host_or_of_a_bound_guest_changes_nothing():
    engine = engine_with([host("a")])
    place(engine, guest("g"))
    unheard(engine, BindFailed(uid="g", host="elsewhere"))
    engine.apply(GuestBound(uid="g", host="a"))
    unheard(engine, BindFailed(uid="g", host="a"))
    assert engine.decision("g").state == "bound"


def test_a_bind_that_failed_on_a_host_that_left_gives_back_too():
    engine = engine_with([host("a"), host("b", cpu=0)])
    place(engine, guest("g"))
    engine.apply(HostLeft(name="a"))
    engine.apply(BindFailed(uid="g", host="a"))
    assert engine.decision("g").state == "backoff"
    engine.apply(HostJoined(host=host("a")))
    assert used(engine, "a") == {}


def test_a_prepared_guest_that_is_bound_elsewhere_gets_no_second_bind():
    engine = engine_with([host("a"), host("b")])
    arrive(engine, guest("g", prepare=("disk",)))
    (prepare,) = engine.step(0)
    assert isinstance(prepare, Prepare)
    engine.apply(Prepared(uid="g", host="a"))
    engine.apply(GuestBound(uid="g", host="b"))
    assert engine.step(1) == []
    assert engine.decision("g").state == "bound"
