"""What was kept long enough is deleted, and nothing that is still needed."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.control.fleet.presence import publish, read_hearsay
from hostler.control.fleet.retention import ForgottenBatch, forget_all, forget_batch
from hostler.control.fleet.times import FleetTimes
from hostler.control.settings import ControlSettings
from hostler.control.store import open_database
from hostler.control.store.history import log
from hostler.control.store.history.log import NewEntry, StoredCheckpoint
from hostler.control.store.rows import idempotency, operations, projects, vms
from hostler.control.store.rows.idempotency import RecordedAnswer
from hostler.control.store.rows.operations import OperationFilter, OperationRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.store.rows.vms import VmRow
from tests.control.databases import PATIENT
from tests.control.fleet.control_plane import ControlPlane, run_control_plane
from tests.wait import until

DAY = 86400 * 1_000_000_000
SETTINGS = ControlSettings(keep_events_s=2 * 86400.0, keep_operations_s=86400.0, lease_ttl_s=3600.0)
BACKLOG = 45
AT_ONCE = 10
SMALL = FleetTimes(tidy_at_once=AT_ONCE, tidy_pause_s=0.0, look_s=0.02)


async def test_old_things_are_forgotten_and_young_ones_kept(either_url):
    database = open_database(either_url, limits=PATIENT)
    try:
        await database.write(_fill)
        await database.write(lambda connection: forget_batch(connection, SETTINGS, 10 * DAY, at_once=100))
        left = await database.read(_left)
        assert left == ([8, 9, 10], ["young"], ["young"])
        again = await database.write(lambda connection: forget_batch(connection, SETTINGS, 10 * DAY, at_once=100))
        assert again == ForgottenBatch(gone=0, is_all=True)
    finally:
        await asyncio.to_thread(database.close)


async def test_an_entry_of_a_clock_that_was_ahead_keeps_no_old_ones(url):
    database = open_database(url)
    try:
        days = [1, 500, 2, 500, 9, 3, 500]
        entries = [NewEntry(at_ns=day * DAY, kind="note", body=b"{}") for day in days]
        await database.write(lambda connection: log.append(connection, entries))
        await database.write(lambda connection: _save_two(connection, 7))
        await database.write(lambda connection: forget_batch(connection, SETTINGS, 10 * DAY, at_once=100))
        found = await database.read(lambda connection: log.oldest(connection, 100))
        assert found == [(4, 500 * DAY), (5, 9 * DAY), (6, 3 * DAY), (7, 500 * DAY)]
    finally:
        await asyncio.to_thread(database.close)


@pytest.mark.parametrize(("behind", "kept"), [([1, 1, 1, 9, 9], [9, 9]), ([9, 9], [500] * 25 + [9, 9])])
async def test_entries_from_the_future_go_after_older_ones_follow_across_batches(either_url, behind, kept):
    database = open_database(either_url, limits=PATIENT)
    try:
        days = [500] * 25 + behind
        entries = [NewEntry(at_ns=day * DAY, kind="note", body=b"{}") for day in days]
        await database.write(lambda connection: log.append(connection, entries))
        await database.write(lambda connection: _save_two(connection, len(days)))
        is_all = False
        while not is_all:
            done = await database.write(
                lambda connection: forget_batch(connection, SETTINGS, 10 * DAY, at_once=AT_ONCE)
            )
            assert done.gone <= AT_ONCE
            is_all = done.is_all
        found = await database.read(lambda connection: log.oldest(connection, 100))
        assert [at_ns // DAY for _, at_ns in found] == kept
    finally:
        await asyncio.to_thread(database.close)


async def test_entries_after_the_older_checkpoint_stay_however_old(url):
    database = open_database(url, limits=PATIENT)
    try:
        await database.write(lambda connection: _log(connection, checkpoint=3))
        await database.write(lambda connection: forget_batch(connection, SETTINGS, 1000 * DAY, at_once=100))
        found = await database.read(lambda connection: log.oldest(connection, 100))
        assert [seq for seq, _ in found] == [4, 5, 6, 7, 8, 9, 10]
    finally:
        await asyncio.to_thread(database.close)


async def test_backlog_is_removed_batch_by_batch(either_url):
    async with run_control_plane(either_url, settings=SETTINGS, times=SMALL) as control:
        fleet = control.leader.fleet
        await fill(control)
        gone = await forget_all(fleet, asyncio.Event())
        assert gone == 4 * BACKLOG
        rows = await control.database.read(_counts)
        assert rows == (0, 0)
        assert await forget_all(fleet, asyncio.Event()) == 0


async def test_others_write_between_two_batches(url):
    times = msgspec.structs.replace(SMALL, tidy_pause_s=3600.0)
    async with run_control_plane(url, settings=SETTINGS, times=times) as control:
        await fill(control)
        stopping = asyncio.Event()
        running = asyncio.ensure_future(forget_all(control.leader.fleet, stopping))

        async def has_begun() -> bool:
            operations_left, _ = await control.database.read(_counts)
            return operations_left < BACKLOG

        await until(has_begun)
        assert await control.database.write(_counts) == (BACKLOG - AT_ONCE, BACKLOG - AT_ONCE)
        stopping.set()
        assert await running == 4 * AT_ONCE, "a canceled deletion finishes the batch and no more"


async def test_a_replica_that_does_not_lead_forgets_nothing(shared_url):
    async with run_control_plane(shared_url, replicas=2, settings=SETTINGS, times=SMALL) as control:
        await fill(control)
        [other] = [one for one in control.replicas if one is not control.leader]
        assert await forget_all(other.fleet, asyncio.Event()) == 0
        assert await control.database.read(_counts) == (BACKLOG, BACKLOG)


async def test_duties_forget_beside_their_looks(url):
    async with run_control_plane(url, settings=SETTINGS, times=SMALL) as control:
        await fill(control)
        stopping = asyncio.Event()
        running = asyncio.ensure_future(control.leader.duties.run(stopping))

        async def is_tidy() -> bool:
            return await control.database.read(_counts) == (0, 0)

        await until(is_tidy)
        stopping.set()
        await running


async def fill(control: ControlPlane) -> None:
    """Write a backlog, and wait until every replica has read it: a replica that reads too late starts over."""
    await control.database.write(_backlog)
    head = await control.database.read(log.head)
    await until(lambda: all(one.books.seq >= head for one in control.replicas))


def _backlog(connection) -> None:
    """Write much that was over in 1970, a row of each kind for each number, under checkpoints after all of it."""
    projects.insert(connection, ProjectRow(name="old"))
    for number in range(BACKLOG):
        operations.add_many(connection, [OperationRow(id=f"old{number}", kind="vm.create", finished_ns=1)])
        answer = RecordedAnswer(status=200, response=b"")
        idempotency.remember(connection, "scope", f"old{number}", "hash", answer, now_ns=1, expires_ns=2)
        row = VmRow(id=f"gone{number}", project="old", name=f"gone{number}", power="absent", deleted_ns=1)
        vms.insert_many(connection, [row])
    missing = BACKLOG - log.head(connection)
    # The scene's own entries come before these, and are young: the log goes in order, so they are made old.
    connection.exec_driver_sql("UPDATE log SET at_ns = 1")
    entries = [NewEntry(at_ns=at_ns, kind="note", body=b"{}") for at_ns in [1] * missing + [2]]
    log.append(connection, entries)
    _save_two(connection, BACKLOG + 1)


def _counts(connection) -> tuple[int, int]:
    """Count old operations and old entries of the log."""
    entries = sum(at_ns == 1 for _, at_ns in log.oldest(connection, 1000))
    page = operations.list_page(connection, OperationFilter(kind="vm.create"), limit=100)
    return len(page.items), entries


def _log(connection, *, checkpoint: int) -> None:
    log.append(connection, [NewEntry(at_ns=day * DAY, kind="note", body=b"{}") for day in range(1, 11)])
    _save_two(connection, checkpoint + 1 if checkpoint < 10 else 10)


def _save_two(connection, seq: int) -> None:
    """Save checkpoints at an entry and at the one before it: the log is needed from the older one on."""
    for number in (seq - 1, seq):
        log.save_checkpoint(connection, StoredCheckpoint(seq=number, at_ns=1, format="x", body=b""))


def _fill(connection) -> None:
    _log(connection, checkpoint=10)
    for name, at in (("old", 8 * DAY), ("young", 10 * DAY)):
        operations.add_many(connection, [OperationRow(id=name, kind="vm.create", finished_ns=at)])
        answer = RecordedAnswer(status=200, response=b"")
        idempotency.remember(connection, "scope", name, "hash", answer, now_ns=at - DAY, expires_ns=at + 1)
        publish(connection, name, {"host": 1}, at)


def _left(connection) -> tuple:
    entries = [seq for seq, _ in log.oldest(connection, 100)]
    found = [name for name in ("old", "young") if operations.find(connection, name) is not None]
    return entries, found, [row.name for row in read_hearsay(connection)]
