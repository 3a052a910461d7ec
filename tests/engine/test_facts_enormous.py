"""Sums beyond 2^62: a fact that would pass it is refused, and everything stays where it was."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.model import MAX_AMOUNT, GuestArrived, GuestBound, GuestChanged, GuestsArrived, HostJoined, Prepared
from tests.engine.fleet import GIB, arrive, binds, engine_with, guest, host, place, spec, states, used
from tests.engine.traces import refused


@pytest.fixture
def brimful() -> Engine:
    """An engine whose host ``a`` has 2^62 of cpu booked, and ``b`` nothing."""
    engine = engine_with([host("a"), host("b", cpu=0)])
    arrive(engine, guest("big", cpu=MAX_AMOUNT, memory=0, host="a"))
    return engine


def test_a_guest_that_would_pass_2_to_the_62_is_refused(brimful):
    refused(brimful, GuestArrived(guest=guest("g", cpu=1, host="a")))


def test_pending_guest_that_cannot_be_booked_stays_pending(brimful):
    arrive(brimful, guest("g", cpu=1, version=1))
    refused(brimful, GuestChanged(guest=guest("g", cpu=1, version=2, host="a")))
    refused(brimful, GuestBound(uid="g", host="a"))
    assert brimful.decision("g").state == "active"


def test_waiting_guest_that_cannot_be_booked_stays_waiting(brimful):
    place(brimful, guest("g", cpu=1, version=1))
    refused(brimful, GuestBound(uid="g", host="a"))
    assert brimful.decision("g").state == "waiting"


def test_a_placed_guest_that_cannot_be_booked_elsewhere_stays_where_it_is(brimful):
    arrive(brimful, guest("g", cpu=1, host="b", version=1))
    refused(brimful, GuestBound(uid="g", host="a"))
    refused(brimful, GuestChanged(guest=guest("g", cpu=1, host="a", version=2)))
    assert used(brimful, "b") == {"guests": 1, "cpu": 1, "memory": GIB}


def test_a_running_guest_that_grows_past_2_to_the_62_is_refused(brimful):
    arrive(brimful, guest("g", cpu=0, host="a", version=1))
    refused(brimful, GuestChanged(guest=guest("g", cpu=1, host="a", version=2)))


def test_a_ready_guest_whose_confirmation_is_refused_is_still_ready():
    engine = engine_with([host("a"), host("b", cpu=0)])
    arrive(engine, guest("big", cpu=MAX_AMOUNT, memory=0, host="b"))
    arrive(engine, guest("g", cpu=1, version=1, prepare=("disk",)))
    engine.step(0)
    engine.apply(Prepared(uid="g", host="a"))
    refused(engine, GuestChanged(guest=guest("g", cpu=1, version=2, host="b", prepare=("disk",))))
    assert binds(engine.step(0)) == {"g": "a"}


def test_a_batch_with_one_guest_that_cannot_be_booked_books_none():
    engine = engine_with([host("a")])
    shapes = (spec(cpu=MAX_AMOUNT), spec(cpu=1))
    refused(engine, GuestsArrived(specs=shapes, spec_of=(0, 1), names=("x", "y"), hosts=("a", "a")))
    refused(engine, GuestsArrived(specs=shapes, spec_of=(1, 0), names=("x", "y"), hosts=("a", "a")))


def test_parked_guests_that_no_longer_add_up_stay_parked():
    engine = engine_with()
    arrive(engine, guest("x", cpu=MAX_AMOUNT, host="a"), guest("y", cpu=1, host="a"))
    engine.apply(HostJoined(host=host("a")))
    assert sorted(states(engine).values()) == ["bound", "parked"]
    assert used(engine, "a")["guests"] == 1
