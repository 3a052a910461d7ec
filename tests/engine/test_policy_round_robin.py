"""Round robin: whose turn is next, whatever joins, leaves or fails."""

from __future__ import annotations

from hostler.engine import Engine
from hostler.model import BindFailed, GuestBound, HostChanged, HostJoined, HostLeft, PolicyChanged
from tests.engine.fleet import arrive, engine_with, guest, host, place, policy, step


def turns(engine: Engine, count: int, start: int = 0, **fields) -> list[str]:
    return place(engine, *(guest(f"t{start + i}", cpu=1, memory=1, **fields) for i in range(count)))


def test_round_robin_takes_1_2_3_1():
    engine = engine_with([host(name) for name in "213"], "round_robin")
    assert turns(engine, 4) == ["1", "2", "3", "1"]


def test_round_robin_in_one_step_is_round_robin_in_many():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    arrive(engine, *(guest(f"g{i}", cpu=1, memory=1) for i in range(7)))
    assert [a.host for a in step(engine, 0)] == ["1", "2", "3", "1", "2", "3", "1"]


def test_round_robin_skips_hosts_that_cannot_and_comes_back_to_them():
    engine = engine_with([host("1"), host("2", cordoned=True), host("3")], "round_robin")
    assert turns(engine, 3) == ["1", "3", "1"]
    engine.apply(HostChanged(host=host("2")))
    assert turns(engine, 3, 3) == ["2", "3", "1"]


def test_round_robin_goes_on_after_a_host_that_left():
    engine = engine_with([host(name) for name in "1234"], "round_robin")
    assert turns(engine, 2) == ["1", "2"]
    engine.apply(HostLeft(name="2"))
    assert turns(engine, 3, 2) == ["3", "4", "1"]


def test_round_robin_meets_a_new_host_at_its_place_in_the_order():
    engine = engine_with([host("1"), host("3")], "round_robin")
    assert turns(engine, 1) == ["1"]
    engine.apply(HostJoined(host=host("2")))
    assert turns(engine, 3, 1) == ["2", "3", "1"]


def test_a_refused_guest_takes_no_turn():
    engine = engine_with([host("1"), host("2")], "round_robin")
    assert turns(engine, 1) == ["1"]
    assert place(engine, guest("big", cpu=9000)) == [""]
    assert turns(engine, 1, 1) == ["2"]


def test_round_robin_gives_a_turn_back_when_its_bind_fails():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    assert turns(engine, 1) == ["1"]
    engine.apply(GuestBound(uid="t0", host="1"))
    assert turns(engine, 1, 1) == ["2"]
    engine.apply(BindFailed(uid="t1", host="2"))
    assert turns(engine, 1, 2) == ["2"]


def test_round_robin_gives_no_turn_back_that_a_later_decision_has_passed():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    assert turns(engine, 2) == ["1", "2"]
    engine.apply(BindFailed(uid="t0", host="1"))
    assert turns(engine, 1, 2) == ["3"]


def test_round_robins_of_two_policies_do_not_share_a_position():
    engine = engine_with([host(name) for name in "123"], "round_robin", policy("round_robin", name="other"))
    assert turns(engine, 2) == ["1", "2"]
    assert turns(engine, 2, 2, policy="other") == ["1", "2"]
    assert turns(engine, 1, 4) == ["3"]


def test_a_position_of_round_robin_survives_a_fork_and_a_restore():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    turns(engine, 1)
    for twin in (engine.fork(), Engine.restore(engine.checkpoint())):
        assert turns(twin, 2, 1) == ["2", "3"]


def test_turn_belongs_to_its_policy_whatever_the_default_is():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    assert place(engine, guest("a"), guest("b")) == ["1", "2"]
    engine.apply(PolicyChanged(policies=(policy("spread"), policy("round_robin"))))
    engine.apply(GuestBound(uid="a", host="1"))
    engine.apply(BindFailed(uid="b", host="2"))
    assert place(engine, guest("c", policy="round_robin")) == ["2"]
