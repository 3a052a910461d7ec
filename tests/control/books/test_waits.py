"""How long VMs waited, read off the log; how long the writer stood still."""

from __future__ import annotations

import asyncio
import threading

import msgspec

from hostler.control.api.requests.context import WriteProbe
from hostler.control.books.waiting_vms import PlacementWaits
from hostler.control.store import open_database
from hostler.control.store.history.log import StoredEntry
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from hostler.model import GuestArrived, GuestBound, GuestLeft
from tests.wait import until

SECOND = 1_000_000_000


def entry(seq: int, fact, at_s: float, vm: str = "vm1") -> StoredEntry:
    body = msgspec.json.encode(fact)
    return StoredEntry(seq=seq, at_ns=int(at_s * SECOND), kind="fact", body=body, subject=vm)


def arrival():
    [fact] = desired_state.create("vm1", "default", "web", VmSpec(cpu="1", memory="1Gi")).facts
    assert isinstance(fact, GuestArrived)
    return fact


def test_a_vm_waits_from_its_arrival_to_its_placement():
    waits = PlacementWaits()
    assert waits.read([entry(1, arrival(), 10)], 11 * SECOND) == []
    bound = GuestBound(uid="vm1", host="north")
    assert waits.read([entry(2, bound, 12)], 12 * SECOND) == [2.0]
    assert waits.read([entry(3, bound, 13)], 13 * SECOND) == [], "a placement without an arrival says nothing"


def test_reading_the_log_again_places_no_vm_again():
    waits = PlacementWaits()
    entries = [entry(1, arrival(), 10), entry(2, GuestBound(uid="vm1", host="north"), 12)]
    assert waits.read(entries, 12 * SECOND) == [2.0]
    assert waits.read(entries, 3600 * SECOND) == []


def test_a_vm_that_left_waits_no_longer():
    waits = PlacementWaits()
    facts = (arrival(), GuestLeft(uid="vm1"), GuestBound(uid="vm1", host="north"))
    assert waits.read([entry(seq, fact, 9 + seq) for seq, fact in enumerate(facts, 1)], 12 * SECOND) == []


async def test_a_writer_that_stands_still_shows_while_it_does(tmp_path):
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    probe, stopping, may_go = WriteProbe(), asyncio.Event(), threading.Event()
    blocked = database.submit(lambda connection: may_go.wait(60))
    running = asyncio.ensure_future(probe.run(database, stopping))
    seen = await until(probe.longest_s)
    may_go.set()
    stopping.set()
    await running
    assert blocked.result(30)
    assert probe.longest_s() >= seen
    await database.aclose()
