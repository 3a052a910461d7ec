"""Computations stand back for writes and are never kept out for good."""

from __future__ import annotations

import threading

from hostler.control.books.compute_pauses import ComputePauses
from hostler.control.store import Database
from hostler.control.store.writes.traffic import Traffic
from tests.control.store.test_writer import Gate
from tests.wait import GIVE_UP_S, wait_until


class Computation(threading.Thread):
    """Computes in units, with a pause after each, until the test stops it."""

    def __init__(self, pace: ComputePauses, done: list[str]) -> None:
        super().__init__(daemon=True)
        self._pace = pace
        self._done = done
        self._stopping = threading.Event()

    def run(self) -> None:
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
    paused = threading.Thread(target=ComputePauses(traffic, stand_back_s=GIVE_UP_S).pause, daemon=True)
    paused.start()
    assert paused.is_alive()
    traffic.end(1)
    paused.join(GIVE_UP_S)
    assert not paused.is_alive()


def test_computation_goes_on_under_endless_writes() -> None:
    traffic = Traffic()
    traffic.begin()
    done: list[str] = []
    one = Computation(ComputePauses(traffic), done)
    one.start()
    wait_until(lambda: len(done) > 3, saw=lambda: done)
    one.stop()


class CountedTraffic(Traffic):
    """Counts how often a computation paused."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait_until_idle(self, timeout_s: float) -> None:
        self.waits += 1
        super().wait_until_idle(timeout_s)


def test_threads_with_one_pace_have_turns_of_their_own() -> None:
    """A thread that has its turn keeps no other thread from standing back."""
    traffic = CountedTraffic()
    pace = ComputePauses(traffic, stand_back_s=0.0, watch=lambda: 0.0)
    traffic.begin()
    for _ in range(2):
        pace.pause()
    assert traffic.waits == 1  # no time has passed: its turn has not ended
    other = threading.Thread(target=pace.pause, daemon=True)
    other.start()
    other.join(GIVE_UP_S)
    assert traffic.waits == 2


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
