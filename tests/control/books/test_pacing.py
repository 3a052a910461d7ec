"""Computations stand back for writes, take turns with each other, and are never kept out for good."""

from __future__ import annotations

import threading
from functools import partial

from hostler.control.books.pacing import Pace, Turns
from hostler.control.store import Database
from hostler.control.store.traffic import Traffic
from tests.control.store.test_writer import Gate
from tests.wait import GIVE_UP_S, wait_until


class Computation(threading.Thread):
    """Computes in units, with a pause after each, until it is told to stop."""

    def __init__(self, pace: Pace, done: list[str]) -> None:
        super().__init__(daemon=True)
        self._pace = pace
        self._done = done
        self._stopping = threading.Event()

    def run(self) -> None:
        with self._pace:
            while not self._stopping.is_set():
                self._done.append(self.name)
                self._pace.pause()

    def stop(self) -> None:
        self._stopping.set()
        self.join(GIVE_UP_S)
        assert not self.is_alive()


def test_pause_ends_with_the_write_that_it_waits_for() -> None:
    traffic = Traffic()
    traffic.begin()
    paused = threading.Thread(target=Pace(traffic, stand_back_s=GIVE_UP_S).pause, daemon=True)
    paused.start()
    assert paused.is_alive()
    traffic.end(1)
    paused.join(GIVE_UP_S)
    assert not paused.is_alive()


def test_computation_goes_on_under_endless_writes() -> None:
    traffic = Traffic()
    traffic.begin()
    done: list[str] = []
    one = Computation(Pace(traffic), done)
    one.start()
    wait_until(lambda: len(done) > 3, saw=lambda: done)
    one.stop()


def test_computations_take_turns() -> None:
    """Neither waits for the end of the other, which never comes by itself."""
    turns, traffic, done = Turns(), Traffic(), list[str]()
    both = [Computation(Pace(traffic, turns), done) for _ in range(2)]
    for one in both:
        one.start()
    wait_until(lambda: set(done) == {one.name for one in both}, saw=lambda: set(done))
    seen = len(done)
    wait_until(lambda: set(done[seen:]) == {one.name for one in both}, saw=lambda: set(done[seen:]))
    for one in both:
        one.stop()


def line_is(turns: Turns, length: int) -> bool:
    return turns.waiting == length


def test_turn_that_was_given_goes_to_the_thread_that_waits_longest() -> None:
    turns = Turns()
    assert turns.take(GIVE_UP_S)
    assert not turns.is_wanted
    order: list[int] = []

    def work(number: int) -> None:
        assert turns.take(GIVE_UP_S)
        order.append(number)
        turns.give()

    threads = []
    for number in range(3):
        threads.append(threading.Thread(target=work, args=(number,), daemon=True))
        threads[-1].start()
        wait_until(partial(line_is, turns, number + 1))
    turns.give()
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert order == [0, 1, 2]


def test_computation_without_pauses_does_not_keep_another_out() -> None:
    turns, traffic, done = Turns(), Traffic(), list[str]()
    with Pace(traffic, turns):
        other = Computation(Pace(traffic, turns), done)
        other.start()
        wait_until(lambda: len(done) > 1, saw=lambda: done)
        other.stop()


def test_traffic_is_busy_while_a_write_waits_or_runs(database: Database) -> None:
    assert not database.traffic.is_busy
    gate = Gate(database)
    assert database.traffic.is_busy
    waiting = database.submit(lambda connection: None)
    gate.open()
    waiting.result(GIVE_UP_S)
    wait_until(lambda: not database.traffic.is_busy)


def test_traffic_counts_no_write_that_waits_for_the_disk() -> None:
    traffic = Traffic()
    traffic.begin()
    with traffic.waiting_for_disk():
        assert not traffic.is_busy
    assert traffic.is_busy
    traffic.end(1)
    assert not traffic.is_busy
