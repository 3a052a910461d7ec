"""How long VMs waited, read off the log; how long the engine's thread or the writer stood still."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

from hostler.control.api.probing import WriteProbe
from hostler.control.books.stalls import Stalls
from hostler.control.books.thread import EngineThread
from hostler.control.books.waits import Waits
from hostler.control.store import open_database
from hostler.control.store.log import Entry
from hostler.control.vms import wishes
from hostler.control.vms.spec import VmSpec
from hostler.model import GuestArrived, GuestBound, GuestLeft

SECOND = 1_000_000_000


class Watch:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def entry(seq: int, fact, at_s: float, vm: str = "vm1") -> Entry:
    body = msgspec.json.encode(fact)
    return Entry(seq=seq, at_ns=int(at_s * SECOND), kind="fact", body=body, subject=vm)


def arrival():
    [fact] = wishes.create("vm1", "default", "web", VmSpec(cpu="1", memory="1Gi")).facts
    assert isinstance(fact, GuestArrived)
    return fact


def test_a_vm_waits_from_its_arrival_to_its_placement():
    waits = Waits()
    assert waits.read([entry(1, arrival(), 10)], 11 * SECOND) == []
    bound = GuestBound(uid="vm1", host="north")
    assert waits.read([entry(2, bound, 12)], 12 * SECOND) == [2.0]
    assert waits.read([entry(3, bound, 13)], 13 * SECOND) == [], "a placement without an arrival says nothing"


def test_whoever_reads_the_log_anew_places_nobody_again():
    waits = Waits()
    entries = [entry(1, arrival(), 10), entry(2, GuestBound(uid="vm1", host="north"), 12)]
    assert waits.read(entries, 12 * SECOND) == [2.0]
    assert waits.read(entries, 3600 * SECOND) == []


def test_a_vm_that_left_waits_no_longer():
    waits = Waits()
    facts = (arrival(), GuestLeft(uid="vm1"), GuestBound(uid="vm1", host="north"))
    assert waits.read([entry(seq, fact, 9 + seq) for seq, fact in enumerate(facts, 1)], 12 * SECOND) == []


def test_the_longest_time_is_that_of_the_last_minute_and_of_what_is_under_way():
    watch = Watch()
    stalls = Stalls(watch=watch)
    assert stalls.longest_s() == 0
    for seconds in (1, 7, 3):
        with stalls.timing():
            watch.now += seconds
    assert stalls.longest_s() == 7
    with stalls.timing():
        watch.now += 30
        assert stalls.longest_s() == 30
        with stalls.timing():
            assert stalls.longest_s() == 30
    watch.now += 59
    assert stalls.longest_s() == 30
    watch.now += 2
    assert stalls.longest_s() == 0


def test_a_block_that_fails_took_its_time_too():
    watch = Watch()
    stalls = Stalls(watch=watch)

    def fail() -> None:
        with stalls.timing():
            watch.now += 5
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert stalls.longest_s() == 5


def test_the_engines_thread_tells_how_long_others_wait_for_it():
    async def story() -> None:
        thread, may_end = EngineThread(), threading.Event()
        working = [asyncio.ensure_future(thread.run(may_end.wait)) for _ in range(2)]
        while (seen := thread.stalls.longest_s()) <= 0:
            await asyncio.sleep(0.01)
        may_end.set()
        await asyncio.gather(*working)
        assert thread.stalls.longest_s() >= seen
        thread.close()

    asyncio.run(story())


def test_a_writer_that_stands_still_shows_while_it_does(tmp_path):
    async def story() -> None:
        database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
        probe, stopping, may_go = WriteProbe(), asyncio.Event(), threading.Event()
        blocked = database.submit(lambda connection: may_go.wait(60))
        running = asyncio.ensure_future(probe.run(database, stopping))
        while (seen := probe.longest_s()) <= 0:
            await asyncio.sleep(0.01)
        may_go.set()
        stopping.set()
        await running
        assert blocked.result(30)
        assert probe.longest_s() >= seen
        await database.aclose()

    asyncio.run(story())
