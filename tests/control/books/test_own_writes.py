"""Books read from memory what their own process wrote, and miss nothing that others wrote before or behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hostler.control.store import Database, open_database
from hostler.control.store.backends.postgres import PostgresNotifier
from hostler.control.store.history import lease, log
from tests.control.books.replica_setup import ReplicaSetup
from tests.control.databases import PATIENT
from tests.wait import until


@pytest.fixture
def both(postgres_url) -> Iterator[tuple[Database, Database]]:
    """Give the databases of two processes, which are one."""
    ours, theirs = (open_database(postgres_url, limits=PATIENT) for _ in range(2))
    yield ours, theirs
    theirs.close()
    ours.close()


async def listening(database: Database) -> None:
    notifier = database.notifier
    assert isinstance(notifier, PostgresNotifier)
    notifier.listen()
    assert await asyncio.to_thread(notifier.is_listening.wait, 30)
    await until(lambda: notifier.count > 0)  # the notice that listening began


def test_nobody_sleeps_over_what_others_wrote_behind_our_own(both):
    async def story(ours: Database, theirs: Database) -> None:
        setup, books = ReplicaSetup(ours), ReplicaSetup(ours).books("a")
        await listening(ours)
        await setup.build(1)
        await books.open()
        told = ours.notifier.count
        await setup.add_host(1)
        await ReplicaSetup(theirs).add_host(2)
        await until(lambda: ours.notifier.count >= told + 2)
        head = await ours.read(log.head)
        async with asyncio.timeout(60):
            while books.seq < head:
                await books._read_log()
                if books.seq < head:
                    await ours.notifier.wait(3600, since=books._seen)
        await books.close()

    asyncio.run(story(*both))


def test_new_leader_has_read_what_the_leader_before_wrote_last(both):
    async def story(ours: Database, theirs: Database) -> None:
        setup, books = ReplicaSetup(ours), ReplicaSetup(ours).books("a")
        await setup.build(1)
        await books.open()
        await setup.add_host(1)
        await ReplicaSetup(theirs).add_host(2)
        head = await ours.read(log.head)
        held = await ours.write(lambda connection: lease.take(connection, "a", 3600))
        assert held is not None
        await books._begin_to_lead(held)
        assert books.seq >= head
        await books.close()

    asyncio.run(story(*both))


def test_what_one_process_wrote_alone_is_read_without_the_database(sqlite_url):
    async def story(database: Database) -> None:
        setup, books = ReplicaSetup(database), ReplicaSetup(database).books("a")
        await setup.build(1)
        await books.open()
        await setup.add_host(1)
        database._readers.shutdown()  # nobody reads from now on
        await books._read_log()
        assert books.seq == 2
        assert await database.notifier.wait(0, since=books._seen) == books._seen, "and there is nothing more to read"
        await books.close()

    database = open_database(sqlite_url, limits=PATIENT)
    try:
        asyncio.run(story(database))
    finally:
        database.close()
