"""The queue by itself: three places to wait, against a model that looks at everybody every time."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from hostler.engine.state.queue import ACTIVE, BACKOFF, QUEUE_NAMES, WAITING, Queue
from tests.engine.fleet import QUICK
from tests.random_examples import count_examples

KEYS = [(0, 0), (1, 0), (1, 1)]


class ExpectedPlace(NamedTuple):
    """Where the model thinks that a guest is."""

    state: str
    priority: int
    arrival: int
    key: tuple[int, int]
    until: int = 0
    flush_at: int = 0


class QueueMachine(RuleBasedStateMachine):
    """Guests come, are taken, refused, woken and flushed while time goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.model: dict[str, ExpectedPlace] = {}
        self.now = 0
        self.arrivals = 0
        self.taken: dict[str, ExpectedPlace] = {}
        self.opened: set[tuple[int, int]] = set()

    def leave(self, uid: str, place: ExpectedPlace) -> None:
        """A guest is woken or flushed: at once, or when the backoff ends."""
        if place.until <= self.now:
            self.model[uid] = place._replace(state="active", flush_at=0)
        else:
            self.model[uid] = place._replace(flush_at=min(place.flush_at, place.until))

    @rule(priority=st.sampled_from([0, 0, 5, -3]), key=st.sampled_from(KEYS))
    def a_guest_arrives(self, priority, key):
        self.arrivals += 1
        uid = f"g{self.arrivals}"
        self.queue.activate(uid, priority, self.arrivals, key)
        self.model[uid] = ExpectedPlace("active", priority, self.arrivals, key)

    def line(self) -> list[str]:
        """Return everybody who may be taken, first by priority, then by age."""
        ready = [u for u, p in self.model.items() if p.state == "active" or self.is_let_in(p)]
        return sorted(ready, key=lambda u: (-self.model[u].priority, self.model[u].arrival))

    def is_let_in(self, place: ExpectedPlace) -> bool:
        return place.state == "waiting" and place.key in self.opened

    @rule(limit=st.integers(0, 3))
    def active_guests_are_taken_by_priority_and_age(self, limit):
        line = self.line()
        assert self.queue.head() == (line[0] if line else None)
        active = list(takewhile(lambda uid: not self.is_let_in(self.model[uid]), line))
        assert self.queue.pop(limit) == active[:limit]
        for uid in active[:limit]:
            self.taken[uid] = self.model.pop(uid)

    @rule(limit=st.integers(0, 3), tried=st.integers(0, 3))
    def guests_who_want_the_same_are_taken_and_some_put_back(self, limit, tried):
        line = self.line()
        key = self.model[line[0]].key if line else None
        turn = list(takewhile(lambda uid: self.is_let_in(self.model[uid]) and self.model[uid].key == key, line))
        mates = self.queue.pop_mates(limit)
        assert [uid for uid, _ in mates] == turn[: len(mates)]
        assert mates or not turn or not limit, "a guest could have been taken"
        for uid, _ in mates[:tried]:
            self.taken[uid] = self.model.pop(uid)
        self.queue.put_back(mates[tried:])
        if key in self.opened and mates[tried:]:
            self.queue.open(key)

    @precondition(lambda self: self.taken)
    @rule(pick=st.integers(0, 9), wait=st.integers(0, 4), patience=st.integers(0, 6))
    def a_taken_guest_is_refused(self, pick, wait, patience):
        uid = sorted(self.taken)[pick % len(self.taken)]
        place = self.taken.pop(uid)
        until = self.now + wait
        self.queue.wait(uid, place.priority, place.arrival, place.key, until, max(until, self.now + patience))
        self.model[uid] = place._replace(state="waiting", until=until, flush_at=max(until, self.now + patience))
        self.opened.discard(place.key)

    @precondition(lambda self: self.taken)
    @rule(pick=st.integers(0, 9), wait=st.integers(0, 4))
    def a_taken_guest_backs_off(self, pick, wait):
        uid = sorted(self.taken)[pick % len(self.taken)]
        place = self.taken.pop(uid)
        self.queue.back_off(uid, place.priority, place.arrival, place.key, self.now + wait)
        self.model[uid] = place._replace(state="backoff", until=self.now + wait)

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 9))
    def a_pending_guest_leaves(self, pick):
        uid = sorted(self.model)[pick % len(self.model)]
        assert self.queue.remove(uid) is not None
        del self.model[uid]
        assert self.queue.remove(uid) is None

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 9), priority=st.integers(0, 9), key=st.sampled_from(KEYS))
    def a_pending_guest_changes(self, pick, priority, key):
        uid = sorted(self.model)[pick % len(self.model)]
        place = self.model[uid]
        self.queue.activate(uid, priority, place.arrival, key)
        self.model[uid] = ExpectedPlace("active", priority, place.arrival, key)

    @rule(key=st.sampled_from(KEYS))
    def a_key_is_woken(self, key):
        self.queue.wake(key, self.now)
        for uid, place in list(self.model.items()):
            if place.state == "waiting" and place.key == key:
                self.leave(uid, place)

    @rule(key=st.sampled_from(KEYS))
    def a_key_is_opened(self, key):
        self.queue.open(key)
        if any(place.state == "waiting" and place.key == key for place in self.model.values()):
            self.opened.add(key)

    @rule(later=st.integers(0, 4))
    def time_goes_on(self, later):
        self.now += later
        self.queue.release(self.now)
        for uid, place in list(self.model.items()):
            if place.state == "backoff" and place.until <= self.now:
                self.model[uid] = place._replace(state="active")
            elif place.state == "waiting" and place.flush_at <= self.now:
                self.leave(uid, place)

    @rule(copied=st.booleans())
    def the_queue_is_copied_or_restored(self, copied):
        before = self.queue
        self.queue = before.copy() if copied else Queue.restore(*before.save())
        for uid in list(before.entries):  # whatever happens to the old one is of no concern
            before.remove(uid)

    @invariant()
    def a_key_is_open_as_long_as_somebody_waits_under_it(self):
        self.opened &= {place.key for place in self.model.values() if place.state == "waiting"}
        assert set(self.queue.opened) == self.opened

    @invariant()
    def everybody_is_where_the_model_says(self):
        assert {uid: QUEUE_NAMES[e.state] for uid, e in self.queue.entries.items()} == {
            uid: place.state for uid, place in self.model.items()
        }
        assert len(self.queue) == len(self.model)
        waiting = {key: set(uids) for key, uids in self.queue.waiting.items()}
        expected: dict[tuple[int, int], set[str]] = {}
        for uid, place in self.model.items():
            if place.state == "waiting":
                expected.setdefault(place.key, set()).add(uid)
        assert waiting == expected

    @invariant()
    def it_is_due_when_somebody_is(self):
        times = [self.now for place in self.model.values() if place.state == "active" or self.is_let_in(place)]
        times += [place.until for place in self.model.values() if place.state == "backoff"]
        times += [place.flush_at for place in self.model.values() if place.state == "waiting"]
        assert self.queue.next_due(self.now) == (self.now if self.now in times else min(times, default=None))


@pytest.mark.hypothesis  # in the long tests too
def test_everybody_waits_where_a_model_says_and_is_taken_in_its_order():
    run_state_machine_as_test(QueueMachine, settings=settings(QUICK, max_examples=count_examples(150)))


def test_a_guest_is_in_one_place_only():
    queue = Queue()
    queue.activate("g", 0, 1, (0, 0))
    queue.wait("g", 0, 1, (0, 0), 5, 9)
    assert queue.pop(9) == []
    queue.back_off("g", 0, 1, (0, 0), 7)
    assert queue.waiting == {}
    queue.release(6)
    assert queue.pop(9) == []
    queue.release(7)
    assert queue.pop(9) == ["g"]
    queue.release(100)
    assert queue.pop(9) == []


def test_the_names_of_the_places_are_those_that_people_read():
    assert [QUEUE_NAMES[state] for state in (ACTIVE, BACKOFF, WAITING)] == ["active", "backoff", "waiting"]
