"""A fact that moves nothing wakes nobody."""

from __future__ import annotations

import msgspec

from hostler.engine import Engine, find_policy
from hostler.model import (
    Defer,
    Evict,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    Host,
    HostJoined,
    PreemptionRules,
    amounts,
)

SECOND = 1_000_000_000


def small(name, host="", **more):
    return Guest(name=name, uid=name, spec=GuestSpec(requests=amounts({"cpu": 2000})), host=host, **more)


def full_engine(**policy):
    engine = Engine([msgspec.structs.replace(find_policy("spread"), **policy)])
    engine.apply(HostJoined(host=Host(name="a", capacity=amounts({"cpu": 4000}))))
    for name in ("old", "young"):
        engine.apply(GuestArrived(guest=small(name, host="a", started=SECOND)))
    return engine


def test_a_guest_that_waits_is_not_woken_because_another_began_to_run():
    engine = full_engine()
    engine.apply(GuestArrived(guest=small("waits")))
    assert isinstance(engine.step(0)[0], Defer)
    engine.apply(GuestChanged(guest=small("young", host="a", started=9 * SECOND)))
    assert engine.step(60 * SECOND) == []


def test_who_began_later_is_evicted_first_also_when_that_is_learned_later():
    engine = full_engine(preemption=PreemptionRules())
    engine.apply(GuestChanged(guest=small("young", host="a", started=9 * SECOND)))
    urgent = msgspec.structs.replace(small("urgent"), spec=GuestSpec(requests=amounts({"cpu": 2000}), priority=10))
    engine.apply(GuestArrived(guest=urgent))
    assert [action.uid for action in engine.step(0) if isinstance(action, Evict)] == ["young"]


def test_dry_runs_are_recreated_when_a_start_becomes_known():
    engine = full_engine(preemption=PreemptionRules())
    first = msgspec.structs.replace(small("first"), spec=GuestSpec(requests=amounts({"cpu": 2000}), priority=10))
    fork = engine.fork()
    fork.apply(GuestArrived(guest=first))
    before = [action.uid for action in fork.step(0) if isinstance(action, Evict)]
    other = "old" if before == ["young"] else "young"
    engine.apply(GuestChanged(guest=small(other, host="a", started=9 * SECOND)))
    engine.apply(GuestArrived(guest=first))
    assert [action.uid for action in engine.step(0) if isinstance(action, Evict)] == [other]


def test_a_guest_that_is_asked_to_leave_wakes_nobody_before_it_is_gone():
    engine = full_engine()
    engine.apply(GuestArrived(guest=small("waits")))
    assert isinstance(engine.step(0)[0], Defer)
    leaving = GuestSpec(requests=amounts({"cpu": 2000}), is_leaving=True)
    engine.apply(GuestChanged(guest=msgspec.structs.replace(small("young", host="a"), spec=leaving)))
    assert engine.step(60 * SECOND) == []
    engine.apply(GuestLeft(uid="young"))
    (bind,) = engine.step(61 * SECOND)
    assert (bind.uid, bind.host) == ("waits", "a")


def test_a_guest_that_shrinks_makes_room_at_once():
    engine = full_engine()
    engine.apply(GuestArrived(guest=small("waits")))
    engine.step(0)
    less = GuestSpec(requests=amounts({"cpu": 100}))
    engine.apply(GuestChanged(guest=msgspec.structs.replace(small("young", host="a"), spec=less)))
    engine.apply(GuestChanged(guest=msgspec.structs.replace(small("old", host="a"), spec=less)))
    (bind,) = engine.step(60 * SECOND)
    assert bind.uid == "waits"
