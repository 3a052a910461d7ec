"""An engine that follows a log: own steps are not repeated, and no checkpoint is taken between a step and its entry."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.books.follower import DivergedError, Follower
from hostler.control.store.history.log import StoredEntry
from hostler.errors import InternalError
from hostler.model import (
    Action,
    Evict,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    Host,
    HostJoined,
    amounts,
)

SECOND = 1_000_000_000
SPEC = GuestSpec(requests=amounts({"cpu": 1000}))
FACTS = [
    HostJoined(host=Host(name="a", capacity=amounts({"cpu": 8000, "memory": 2**34}))),
    GuestArrived(guest=Guest(name="one", uid="one", spec=SPEC)),
    GuestArrived(guest=Guest(name="two", uid="two", spec=SPEC)),
]


def fresh() -> Follower:
    return Follower.begin()


def entry(seq: int, kind: str, body: object, at_ns: int = 0) -> StoredEntry:
    return StoredEntry(seq=seq, at_ns=at_ns, kind=kind, body=msgspec.json.encode(body))


def test_a_step_behind_facts_that_it_did_not_know_gives_everybody_the_same():
    leader, replica = fresh(), fresh()
    before = [entry(seq, "fact", fact) for seq, fact in enumerate(FACTS[:2], 1)]
    leader.read(before)
    step, actions = leader.step(10, 100)
    assert [action.uid for action in actions] == ["one"]
    after = [entry(3, "fact", FACTS[2]), entry(4, "step", step)]  # another replica wrote a fact first
    leader.stepped(4)
    leader.read(after)
    replica.read([*before, *after])
    assert list(leader.engine.guests()) == ["one"]
    between = leader.checkpoint(0)
    assert between.seq == 2, "the fact that waits is read again, and the step behind it is not repeated"
    restored = Follower.restore(between)
    restored.read(after[:1])
    with pytest.raises(InternalError):  # its engine has made a step that it has not read yet
        restored.checkpoint(0)
    restored.read(after[1:])
    assert restored.checkpoint(0) == between
    last = [entry(5, "step", leader.step(11, 100)[0])]
    leader.stepped(5)
    leader.read(last)
    replica.read(last)
    restored.read(last)
    assert leader.checkpoint(0) == replica.checkpoint(0) == restored.checkpoint(0)
    assert list(leader.engine.guests()) == ["one", "two"]


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


class PlacedGuest:
    """A leader that has placed a guest, and the replica that follows it."""

    def __init__(self) -> None:
        self.leader, self.replica = fresh(), fresh()
        self.read(*FACTS[:2])
        self.step()

    def read(self, *facts: object) -> None:
        self._tell(*[entry(seq, "fact", fact, SECOND) for seq, fact in enumerate(facts, self.leader.seq + 1)])

    def step(self) -> list[Action]:
        made, actions = self.leader.step(2 * SECOND, 100)
        self.leader.stepped(self.leader.seq + 1)
        self._tell(entry(self.leader.seq + 1, "step", made, 2 * SECOND))
        return actions

    def _tell(self, *entries: StoredEntry) -> None:
        for follower in (self.leader, self.replica):
            follower.read(entries)
            assert follower.due == follower.next_due()


def test_confirmed_placement_shares_the_next_step():
    placed = PlacedGuest()
    leader = placed.leader
    assert leader.due is None
    placed.read(GuestBound(uid="one", host="a"))
    due = leader.next_due()
    assert due is not None
    assert leader.engine.now < due < leader.engine.now + SECOND
    placed.read(FACTS[2])
    assert leader.due == leader.engine.now
    assert [action.uid for action in placed.step()] == ["two"]
    assert leader.engine.decision("one").state == "bound"
    assert leader.checkpoint(0) == placed.replica.checkpoint(0)


def test_start_time_of_placed_guest_shares_the_next_step():
    placed = PlacedGuest()
    placed.read(GuestBound(uid="one", host="a"))
    guest = placed.leader.engine.view.guest("one")
    running = msgspec.structs.replace(guest, host="a", version=guest.version + 1, started=7 * SECOND)
    placed.read(GuestChanged(guest=running))
    assert (placed.leader.due or 0) > placed.leader.engine.now
    larger = msgspec.structs.replace(guest.spec, priority=3)
    placed.read(GuestChanged(guest=msgspec.structs.replace(running, spec=larger, version=guest.version + 2)))
    assert placed.leader.due == placed.leader.engine.now
    placed.step()
    assert placed.leader.engine.view.guest("one").started == 7 * SECOND
    assert placed.leader.checkpoint(0) == placed.replica.checkpoint(0)


@pytest.mark.parametrize(
    "fact",
    [GuestBound(uid="one", host="elsewhere"), GuestBound(uid="two", host="a"), GuestLeft(uid="one")],
    ids=["elsewhere", "nobody-decided", "gone"],
)
def test_what_confirms_no_decision_is_looked_at_at_once(fact):
    placed = PlacedGuest()
    placed.read(GuestBound(uid="one", host="a"), fact)
    assert placed.leader.due == placed.leader.engine.now


def test_replica_from_checkpoint_knows_when_something_is_due():
    pair = GangReplicas()
    pair.read(GuestLeft(uid="one"), at_s=110)
    pair.step(110)
    again = Follower.restore(pair.leader.checkpoint(0))
    assert again.due == pair.leader.due == 170 * SECOND


def test_a_replica_that_decides_otherwise_says_so():
    leader, replica = fresh(), fresh()
    facts = [entry(seq, "fact", fact) for seq, fact in enumerate(FACTS, 1)]
    leader.read(facts)
    step, _ = leader.step(10, 100)
    replica.read(facts)
    with pytest.raises(InternalError, match="otherwise"):
        replica.read([entry(4, "step", msgspec.structs.replace(step, limit=1))])


def test_missing_entries_of_the_log_make_a_replica_diverge():
    """It says so and falls back to another beginning, instead of ending at every start."""
    replica = fresh()
    for _ in range(2):
        with pytest.raises(DivergedError, match="entries are missing"):
            replica.read([entry(2, "fact", FACTS[0])])


class GangReplicas:
    """A leader and the replica that follows it, with a gang of two that is released a minute after it broke."""

    def __init__(self) -> None:
        self.leader, self.replica = fresh(), fresh()
        gang = Gang(
            name="pair",
            namespace="default",
            version=1,
            min_count=2,
            when_broken="release_after",
            release_after_ns=60 * SECOND,
        )
        guests = [Guest(name=name, uid=name, spec=SPEC, gang="default/pair") for name in ("one", "two")]
        self.read(FACTS[0], GangChanged(gang=gang), *[GuestArrived(guest=guest) for guest in guests], at_s=100)
        assert len(self.step(100)) == 2
        self.read(*[GuestBound(uid=guest.uid, host="a") for guest in guests], at_s=100)
        self.step(101)

    def read(self, *facts: object, at_s: int) -> None:
        self._tell([entry(seq, "fact", fact, at_s * SECOND) for seq, fact in enumerate(facts, self.leader.seq + 1)])

    def step(self, at_s: int) -> list[Action]:
        made, actions = self.leader.step(at_s * SECOND, 100)
        self.leader.stepped(self.leader.seq + 1)
        self._tell([entry(self.leader.seq + 1, "step", made, at_s * SECOND)])
        assert self.leader.checkpoint(0) == self.replica.checkpoint(0)
        return actions

    def _tell(self, entries: list[StoredEntry]) -> None:
        self.leader.read(entries)
        self.replica.read(entries)


def test_gang_broken_after_quiet_hour_is_kept_for_its_time():
    pair = GangReplicas()
    pair.read(GuestLeft(uid="one"), at_s=3700)
    assert pair.step(3701) == [], "it was not broken all the hour"
    assert pair.step(3759) == []
    assert [type(action) for action in pair.step(3760)] == [Evict]


def test_host_fact_from_fast_clock_takes_no_time_from_broken_gang():
    pair = GangReplicas()
    pair.read(GuestLeft(uid="one"), at_s=110)
    assert pair.step(110) == []
    pair.read(HostJoined(host=Host(name="b")), at_s=111 + 3600)
    assert pair.step(111) == []
    assert pair.leader.engine.now == 111 * SECOND
    assert pair.step(169) == []
    assert [type(action) for action in pair.step(170)] == [Evict]


def test_break_from_fast_clock_counts_from_when_leader_hears_it():
    pair = GangReplicas()
    pair.read(GuestLeft(uid="one"), at_s=110 + 3600)
    assert pair.step(112) == []
    assert pair.step(171) == []
    assert [type(action) for action in pair.step(172)] == [Evict]


def test_reader_is_not_shown_a_time_that_is_ahead():
    follower = fresh()
    follower.read([entry(1, "fact", FACTS[0], 3600 * SECOND)])
    twin = follower.engine.fork()
    follower.show(twin, SECOND)
    assert twin.now == SECOND
    assert [host.name for host in twin.hosts()] == ["a"]
