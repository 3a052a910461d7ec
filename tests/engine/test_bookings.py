"""Placements on the books: which devices a fact means, who is parked, and how long a failed guest waits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.engine.state.bookings import Bookings
from hostler.engine.state.records import QUEUED, GuestRecord
from hostler.model import (
    Device,
    DeviceRequest,
    Guest,
    GuestBound,
    GuestChanged,
    GuestLeft,
    HostChanged,
    HostJoined,
    HostLeft,
    QueueRules,
)
from tests.engine.fleet import (
    QUICK,
    SECOND,
    arrive,
    devices_left,
    engine_with,
    essence,
    guest,
    host,
    policy,
    states,
    used,
)

# -- devices that a fact does not name --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param("lowest", (0,), id="lowest"),
        pytest.param("best", (1,), id="best"),
        pytest.param("worst", (2,), id="worst"),
    ],
)
def test_guest_running_by_a_fact_gets_the_devices_of_its_policy(rule, expected):
    engine = engine_with([host("a", gpus=3)], policy("spread", devices=rule))
    arrive(
        engine, guest("x", gpu=(1, 300), host="a", on_devices=(0,)), guest("y", gpu=(1, 600), host="a", on_devices=(1,))
    )
    arrive(engine, guest("g", gpu=(1, 400), host="a"))
    assert engine.decision("g").devices == expected


def test_guest_running_without_device_room_gets_the_freest_devices():
    engine = engine_with([host("a", gpus=3)])
    for at, milli in enumerate((900, 500, 700)):
        arrive(engine, guest(f"t{at}", gpu=(1, milli), host="a", on_devices=(at,)))
    arrive(engine, guest("g", gpu=(2, 600), host="a"))
    assert engine.decision("g").devices == (1, 2)
    assert devices_left(engine, "a") == [100, -100, -300]


def test_a_guest_that_runs_on_a_host_without_its_devices_holds_none():
    engine = engine_with([host("a", gpus=1)])
    arrive(engine, guest("g", gpu=(2, 100), host="a"))
    assert engine.decision("g").devices == ()
    assert devices_left(engine, "a") == [1000]
    engine.apply(GuestLeft(uid="g"))
    assert (devices_left(engine, "a"), used(engine, "a")) == ([1000], {})


def test_several_requests_on_a_full_host_see_what_the_earlier_ones_took():
    machine = host("a", devices=(Device("gpu", "", 500), Device("gpu", "", 400)))
    engine = engine_with([machine])
    wanted = (DeviceRequest("gpu", 1, 450), DeviceRequest("gpu", 1, 450))
    arrive(engine, guest("g", devices=wanted, host="a"))
    assert engine.decision("g").devices == (0, 1)


def test_parked_guest_gets_other_devices_if_its_own_are_gone():
    engine = engine_with([host("a", devices=(Device("nic"), Device("gpu")))])
    arrive(engine, guest("g", gpu=(1, 400), host="a", on_devices=(1,)))
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("a", devices=(Device("gpu"), Device("nic")))))
    assert engine.decision("g").devices == (0,)
    assert devices_left(engine, "a") == [600, 1000]


def test_guest_keeps_its_devices_only_if_it_keeps_its_requests():
    engine = engine_with([host("a", gpus=3)])
    arrive(engine, guest("g", version=1, gpu=(1, 400), host="a", on_devices=(2,)))
    engine.apply(GuestChanged(guest=guest("g", version=2, cpu=5, gpu=(1, 400), host="a")))
    assert engine.decision("g").devices == (2,)
    engine.apply(GuestChanged(guest=guest("g", version=3, cpu=5, gpu=(2, 400), host="a")))
    assert engine.decision("g").devices == (0, 1)
    assert devices_left(engine, "a") == [600, 600, 1000]


def test_a_guest_that_moves_takes_no_device_with_it():
    engine = engine_with([host("a", gpus=2), host("b", gpus=2)])
    arrive(engine, guest("t", gpu=(1, 1000), host="b", on_devices=(0,)))
    arrive(engine, guest("g", version=1, gpu=(1, 400), host="a", on_devices=(0,)))
    engine.apply(GuestChanged(guest=guest("g", version=2, gpu=(1, 400), host="b")))
    assert devices_left(engine, "a") == [1000, 1000]
    assert devices_left(engine, "b") == [0, 600]


# -- parking ----------------------------------------------------------------------------------------------------------

moves = st.lists(
    st.tuples(st.sampled_from(["arrive", "bind", "leave", "join", "go"]), st.integers(0, 4), st.sampled_from("abc")),
    max_size=25,
)


@given(moves=moves)
@QUICK
def test_a_guest_is_parked_exactly_while_its_host_is_away(moves):
    engine = engine_with()
    where: dict[str, str] = {}
    there: set[str] = set()
    gone: set[str] = set()
    for what, number, name in moves:
        uid = f"g{number}"
        if what == "arrive" and uid not in where and uid not in gone:
            arrive(engine, guest(uid, host=name))
            where[uid] = name
        elif what == "bind" and uid in where:
            engine.apply(GuestBound(uid=uid, host=name))
            where[uid] = name
        elif what == "leave":
            engine.apply(GuestLeft(uid=uid))
            where.pop(uid, None)
            gone.add(uid)
        elif what == "join":
            engine.apply(HostJoined(host=host(name)))
            there.add(name)
        elif what == "go":
            engine.apply(HostLeft(name=name))
            there.discard(name)
        assert states(engine) == {uid: "bound" if at in there else "parked" for uid, at in where.items()}
        for each in there:
            assert used(engine, each).get("guests", 0) == list(where.values()).count(each)


def test_nothing_stays_parked_of_guests_that_are_gone_or_bound_elsewhere():
    engine = engine_with([host("a")])
    arrive(engine, guest("g", host="away"), guest("h", host="away"), guest("i", host="beyond"))
    engine.apply(GuestLeft(uid="g"))
    engine.apply(GuestBound(uid="h", host="a"))
    assert essence(engine)["parked"] == {"beyond": ["i"]}


def test_guest_beyond_the_sum_is_booked_once_there_is_room():
    most = 2**62
    engine = engine_with()
    arrive(engine, guest("x", cpu=most, memory=0, host="a"), guest("y", cpu=1, memory=0, host="a"))
    engine.apply(HostJoined(host=host("a")))
    assert states(engine) == {"x": "bound", "y": "parked"}
    engine.apply(GuestLeft(uid="x"))
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("a")))
    assert states(engine) == {"y": "bound"}
    assert used(engine, "a") == {"guests": 1, "cpu": 1}


def test_devices_of_a_running_host_are_booked_again_for_all_its_guests():
    engine = engine_with([host("a", gpus=3)])
    arrive(
        engine,
        guest("x", gpu=(2, 200), host="a", on_devices=(0, 2)),
        guest("y", gpu=(1, 300), host="a", on_devices=(2,)),
    )
    engine.apply(HostChanged(host=host("a", devices=(Device("gpu", "new"), Device("gpu", "", 100), Device("gpu")))))
    assert devices_left(engine, "a") == [800, 100, 500]


# -- backoff ----------------------------------------------------------------------------------------------------------

rule_sets = st.builds(
    lambda first, most, jitter: QueueRules(backoff_initial_ns=first, backoff_max_ns=most, jitter_percent=jitter),
    st.integers(0, 10 * SECOND),
    st.integers(0, 1000 * SECOND),
    st.integers(0, 100),
)


def backoff(rules: QueueRules, failures: int, uid: str = "g", attempts: int = 1, seed: int = 0) -> int:
    engine = Engine([policy("spread")], rules=rules, seed=seed)
    record = GuestRecord(Guest(name="g", uid=uid), 0, QUEUED, 1, attempts=attempts)
    return Bookings(engine.state).backoff(record, failures)


@given(rules=rule_sets, failures=st.integers(1, 80), attempts=st.integers(0, 99))
@QUICK
def test_backoff_doubles_up_to_a_limit_and_jitter_only_adds(rules, failures, attempts):
    plain = min(rules.backoff_initial_ns * 2 ** (failures - 1), rules.backoff_max_ns)
    found = backoff(rules, failures, attempts=attempts)
    assert plain <= found <= plain * (100 + rules.jitter_percent) // 100
    if not rules.jitter_percent:
        assert found == plain


@pytest.mark.parametrize("other", [{"uid": "h"}, {"attempts": 2}, {"seed": 1}])
def test_jitter_depends_on_guest_attempt_and_seed_only(other: dict[str, Any]):
    rules = QueueRules(jitter_percent=100)
    assert backoff(rules, 1) == backoff(rules, 1) != backoff(rules, 1, **other)
