"""A guest that cannot be decided is set aside with an error, and the others go on."""

from __future__ import annotations

from hostler.engine import Engine, find_policy
from hostler.model import (
    Bind,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestFailed,
    GuestSpec,
    Host,
    HostJoined,
    amounts,
)

SECOND = 1_000_000_000


def guest(name, **spec):
    gang = spec.pop("gang", "")
    return GuestArrived(
        guest=Guest(name=name, uid=name, spec=GuestSpec(requests=amounts({"cpu": 1}), **spec), gang=gang)
    )


def test_a_guest_that_failed_is_tried_again_after_its_backoff():
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a", capacity=amounts({"cpu": 4000}))))
    engine.apply(guest("g"))
    assert engine.next_guest() == "g"
    engine.apply(GuestFailed(uid="g", reason="the plugin is out of sorts"))
    assert engine.next_guest() is None
    assert engine.step(0) == []
    assert engine.decision("g").note == "deciding failed: the plugin is out of sorts"
    (bind,) = engine.step(2 * SECOND)
    assert isinstance(bind, Bind)


def test_others_go_on_while_one_is_set_aside():
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a", capacity=amounts({"cpu": 4000}))))
    engine.apply(guest("first", priority=1))
    engine.apply(guest("second"))
    engine.apply(GuestFailed(uid="first"))
    assert [action.uid for action in engine.step(0)] == ["second"]


def test_a_gang_waits_as_a_whole_when_deciding_it_failed():
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a", capacity=amounts({"cpu": 4000}))))
    engine.apply(GangChanged(gang=Gang(name="crew", min_count=2)))
    engine.apply(guest("one", gang="default/crew"))
    engine.apply(guest("two", gang="default/crew"))
    assert engine.next_guest() in ("one", "two")
    engine.apply(GuestFailed(uid=engine.next_guest(), reason="no"))
    assert engine.step(0) == []
    assert {action.uid for action in engine.step(20 * SECOND)} == {"one", "two"}


def test_a_guest_that_runs_or_is_unknown_cannot_fail():
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a", capacity=amounts({"cpu": 4000}))))
    engine.apply(guest("g"))
    engine.step(0)
    engine.apply(GuestFailed(uid="g"))
    engine.apply(GuestFailed(uid="nobody"))
    assert engine.decision("g").host == "a"
