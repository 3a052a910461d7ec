"""A preemption that was begun before the engine's time goes on, and evicts nobody else meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from hostler.engine import Engine, find_policy
from hostler.model import (
    Bind,
    Evict,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestNominated,
    GuestSpec,
    Host,
    HostJoined,
    PreemptionRules,
    amounts,
)


@dataclass
class NominatingFront:
    engine: Engine

    def arrive(self, name, priority=0, host="", **spec):
        shape = GuestSpec(requests=amounts({"cpu": 4000}), priority=priority, **spec)
        self.engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=shape, host=host)))


@pytest.fixture
def front():
    policy = msgspec.structs.replace(find_policy("spread"), preemption=PreemptionRules())
    engine = Engine([policy])
    for name in ("a", "b"):
        engine.apply(HostJoined(host=Host(name=name, capacity=amounts({"cpu": 4000}))))
    return NominatingFront(engine)


def test_nominated_guest_waits_for_leaving_victims_and_evicts_no_more(front):
    front.arrive("old", host="a", is_leaving=True)
    front.arrive("other", priority=-5, host="b")
    front.arrive("urgent", priority=10)
    front.engine.apply(GuestNominated(uid="urgent", host="a"))
    assert not any(isinstance(action, Evict) for action in front.engine.step(0))
    front.engine.apply(GuestLeft(uid="old"))
    (bind,) = [action for action in front.engine.step(0) if isinstance(action, Bind)]
    assert (bind.uid, bind.host) == ("urgent", "a")


def test_without_the_word_of_the_nomination_the_other_host_is_emptied_too(front):
    front.arrive("old", host="a", is_leaving=True)
    front.arrive("other", priority=-5, host="b")
    front.arrive("urgent", priority=10)
    assert [action.uid for action in front.engine.step(0) if isinstance(action, Evict)] == ["other"]


def test_room_is_kept_for_the_nominated_guest(front):
    front.arrive("old", host="a", is_leaving=True)
    front.arrive("other", priority=100, host="b")
    front.arrive("urgent", priority=10)
    front.engine.apply(GuestNominated(uid="urgent", host="a"))
    front.engine.step(0)
    front.engine.apply(GuestLeft(uid="old"))
    front.arrive("thief")
    binds = {action.uid for action in front.engine.step(0) if isinstance(action, Bind)}
    assert binds == {"urgent"}


def test_a_nomination_whose_victims_are_gone_already_means_nothing(front):
    front.arrive("stays", host="a")
    front.arrive("urgent", priority=10)
    front.engine.apply(GuestNominated(uid="urgent", host="a"))
    (bind,) = front.engine.step(0)
    assert bind.host == "b"


@pytest.mark.parametrize("uid", ["nobody", "runs"])
def test_nominations_of_the_unknown_and_the_placed_are_ignored(front, uid):
    front.arrive("runs", host="a")
    front.engine.apply(GuestNominated(uid=uid, host="a"))
    front.engine.apply(GuestNominated(uid=uid, host="nowhere"))
    assert front.engine.step(0) == []


def test_a_nomination_is_kept_by_a_checkpoint(front):
    front.arrive("old", host="a", is_leaving=True)
    front.arrive("other", priority=-5, host="b")
    front.arrive("urgent", priority=10)
    front.engine.apply(GuestNominated(uid="urgent", host="a"))
    twin = Engine.restore(front.engine.checkpoint())
    assert twin.step(0) == front.engine.step(0)
    for engine in (twin, front.engine):
        engine.apply(GuestLeft(uid="old"))
    assert twin.step(0) == front.engine.step(0)
