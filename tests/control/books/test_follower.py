"""An engine that follows a log: own steps are not repeated, and no checkpoint is taken between a step and its entry."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.books.follower import Follower
from hostler.control.settings import ControlSettings, policies_for
from hostler.control.store.log import Entry
from hostler.errors import InternalError
from hostler.model import Guest, GuestArrived, GuestSpec, Host, HostJoined, amounts

SPEC = GuestSpec(requests=amounts({"cpu": 1000}))
FACTS = [
    HostJoined(host=Host(name="a", capacity=amounts({"cpu": 8000, "memory": 2**34}))),
    GuestArrived(guest=Guest(name="one", uid="one", spec=SPEC)),
    GuestArrived(guest=Guest(name="two", uid="two", spec=SPEC)),
]


def fresh() -> Follower:
    return Follower(policies_for(ControlSettings()), 0)


def entry(seq: int, kind: str, body: object) -> Entry:
    return Entry(seq=seq, at_ns=0, kind=kind, body=msgspec.json.encode(body))


def test_a_step_behind_facts_that_it_did_not_know_gives_everybody_the_same():
    leader, replica = fresh(), fresh()
    before = [entry(seq, "fact", fact) for seq, fact in enumerate(FACTS[:2], 1)]
    leader.read(before)
    step, actions = leader.step(10, 100)
    assert [action.uid for action in actions] == ["one"]
    after = [entry(3, "fact", FACTS[2]), entry(4, "step", step)]  # somebody else was quicker with a fact
    leader.stepped(4)
    leader.read(after)
    replica.read([*before, *after])
    assert list(leader.engine.guests()) == ["one"]
    assert leader.checkpoint(0) == replica.checkpoint(0)
    assert list(leader.engine.guests()) == ["one", "two"], "nothing is lost that was read before a checkpoint"


def test_no_checkpoint_is_taken_before_an_own_step_was_read():
    leader = fresh()
    leader.read([entry(seq, "fact", fact) for seq, fact in enumerate(FACTS, 1)])
    step, _ = leader.step(10, 100)
    with pytest.raises(InternalError):
        leader.checkpoint(0)
    leader.stepped(4)
    with pytest.raises(InternalError):
        leader.checkpoint(0)
    leader.read([entry(4, "step", step)])
    again = Follower.restore(leader.checkpoint(0))
    assert again.checkpoint(0) == leader.checkpoint(0)


def test_a_replica_that_decides_otherwise_says_so():
    leader, replica = fresh(), fresh()
    facts = [entry(seq, "fact", fact) for seq, fact in enumerate(FACTS, 1)]
    leader.read(facts)
    step, _ = leader.step(10, 100)
    replica.read(facts)
    with pytest.raises(InternalError, match="otherwise"):
        replica.read([entry(4, "step", msgspec.structs.replace(step, limit=1))])


def test_entries_out_of_order_are_refused():
    with pytest.raises(InternalError, match="follows"):
        fresh().read([entry(2, "fact", FACTS[0])])
