"""Room held for a gang that waits for its victims: it has the current priority of the gang, whatever members do.

A gang without a priority of its own has the lowest of its members. A restored engine computes it again, so an engine
that kept the one of before would decide otherwise than its own checkpoint.
"""

from __future__ import annotations

import msgspec
import pytest

from hostler.engine import Engine
from hostler.model import (
    Action,
    Defer,
    Event,
    Evict,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    HostJoined,
    PreemptionRules,
    amounts,
)
from tests.engine.fleet import SECOND, host, policy


def guest(uid: str, cpu: int, priority: int, where: str = "", gang: str = "") -> Guest:
    spec = GuestSpec(requests=amounts({"cpu": cpu}), priority=priority)
    return Guest(name=uid, uid=uid, spec=spec, host=where, gang=gang)


def waiting_gang() -> Engine:
    """Return an engine whose gang of priority 0 runs with one member, and holds all of host ``a`` for another."""
    engine = Engine((policy("first_fit", preemption=PreemptionRules()),))
    facts: list[Event] = [
        HostJoined(host=host("a", cpu=4000)),
        HostJoined(host=host("b", cpu=2000)),
        GuestArrived(guest=guest("victim", 3000, -5, "a")),
        GangChanged(gang=Gang(name="g", min_count=1)),
        GuestArrived(guest=guest("low", 2000, 0, "b", gang="default/g")),
        GuestArrived(guest=guest("high", 4000, 5, gang="default/g")),
    ]
    for fact in facts:
        engine.apply(fact)
    assert [action.uid for action in engine.step(SECOND) if isinstance(action, Evict)] == ["victim"]
    return engine


def of_priority(engine: Engine, uid: str, priority: int) -> GuestChanged:
    known = engine.state.guests[uid].guest
    spec = msgspec.structs.replace(known.spec, priority=priority)
    return GuestChanged(guest=msgspec.structs.replace(known, spec=spec))


def decide_small(engine: Engine) -> list[Action]:
    """Let a guest arrive that fits beside the victim unless the gang's hold is against its priority."""
    engine.apply(GuestArrived(guest=guest("small", 1000, 3)))
    return engine.step(2 * SECOND)


@pytest.mark.parametrize("change", ["raised", "lowered", "left"])
def test_hold_of_a_gang_is_the_same_after_a_restore(change: str):
    engine = waiting_gang()
    changes = {
        "raised": of_priority(engine, "low", 9),
        "lowered": of_priority(engine, "low", -1),
        "left": GuestLeft(uid="low"),
    }
    engine.apply(changes[change])
    twins = [Engine.restore(engine.checkpoint()), engine.fork()]
    actions = decide_small(engine)
    for twin in twins:
        assert decide_small(twin) == actions
        assert twin.checkpoint() == engine.checkpoint()


def test_hold_of_a_gang_rises_with_the_priority_of_its_lowest_member():
    engine = waiting_gang()
    engine.apply(of_priority(engine, "low", 9))
    assert [(type(action), action.uid) for action in decide_small(engine)] == [(Defer, "small")]
