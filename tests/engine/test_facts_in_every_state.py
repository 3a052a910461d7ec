"""The same fact in every state that a guest can be in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hostler.engine import Engine
from hostler.errors import UnknownNameError
from hostler.model import AskUse, BindFailed, GuestBound, GuestLeft, HostJoined, HostLeft, Prepared
from tests.engine.fleet import SECOND, arrive, engine_with, guest, host, place, policy, used


def _active(engine: Engine) -> None:
    arrive(engine, guest("g"))


def _backoff(engine: Engine) -> None:
    place(engine, guest("g"), now=0)
    engine.apply(BindFailed(uid="g", host="a"))


def _waiting(engine: Engine) -> None:
    place(engine, guest("g", cpu=9000), now=0)


def _asked(engine: Engine) -> None:
    place(engine, guest("g", policy="asking"), now=0)


def _preparing(engine: Engine) -> None:
    place(engine, guest("g", prepare=("disk",)), now=0)


def _ready(engine: Engine) -> None:
    _preparing(engine)
    engine.apply(Prepared(uid="g", host="a"))


def _assumed(engine: Engine) -> None:
    place(engine, guest("g"), now=0)


def _bound(engine: Engine) -> None:
    _assumed(engine)
    engine.apply(GuestBound(uid="g", host="a"))


def _parked(engine: Engine) -> None:
    arrive(engine, guest("g", host="away"))


IN_STATE = {
    "active": (_active, "active"),
    "backoff": (_backoff, "backoff"),
    "waiting": (_waiting, "waiting"),
    "asked": (_asked, "asked"),
    "preparing": (_preparing, "preparing"),
    "ready": (_ready, "preparing"),
    "assumed": (_assumed, "assumed"),
    "bound": (_bound, "bound"),
    "parked": (_parked, "parked"),
}


def in_state(bring: Callable[[Engine], None]) -> Engine:
    engine = engine_with([host("a")], "spread", policy("spread", name="asking", ask=AskUse("oracle")))
    bring(engine)
    return engine


@pytest.mark.parametrize(("bring", "state"), [pytest.param(*case, id=name) for name, case in IN_STATE.items()])
def test_a_guest_that_leaves_takes_everything_with_it(bring, state):
    engine = in_state(bring)
    assert engine.decision("g").state == state
    engine.apply(GuestLeft(uid="g"))
    assert list(engine.guests()) == []
    assert used(engine, "a") == {}
    assert len(engine.state.queue) == 0
    assert engine.step(10_000 * SECOND) == []
    assert engine.next_due() is None
    engine.apply(HostJoined(host=host("away")))
    assert used(engine, "away") == {}
    with pytest.raises(UnknownNameError):
        engine.decision("g")
    assert place(engine, guest("next", cpu=4000)) == ["a"]


@pytest.mark.parametrize("bring", [pytest.param(case[0], id=name) for name, case in IN_STATE.items()])
def test_guest_bound_from_outside_in_any_state_is_booked_once(bring):
    engine = in_state(bring)
    engine.apply(HostJoined(host=host("b")))
    engine.apply(GuestBound(uid="g", host="b"))
    assert engine.decision("g").state == "bound"
    assert used(engine, "b")["guests"] == 1
    assert used(engine, "a") == {}
    assert engine.step(10_000 * SECOND) == []
    assert engine.next_due() is None


@pytest.mark.parametrize("bring", [pytest.param(case[0], id=name) for name, case in IN_STATE.items()])
def test_a_host_that_leaves_and_returns_finds_its_books_as_they_were(bring):
    engine = in_state(bring)
    before = used(engine, "a")
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("a")))
    assert used(engine, "a") == before
