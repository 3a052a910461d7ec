"""Notices may be lost: replicas that nobody wakes look at the log by themselves."""

from __future__ import annotations

import asyncio

import psycopg

from hostler.control.store import Database, open_database
from hostler.control.store.backends.postgres import PostgresNotifier
from hostler.control.store.history import log
from tests.control.books.replica_setup import BooksReplica, ReplicaSetup, all_placed
from tests.control.databases import PATIENT
from tests.wait import until


def test_a_replica_whose_listener_is_dead_still_reads_what_others_decide(postgres_url):
    async def story(database: Database, deaf: Database) -> None:
        setup = ReplicaSetup(database)
        await setup.build(2)
        one = await BooksReplica(setup.books("a")).start()
        await setup.create("first")
        await all_placed(setup, "first")
        two = await BooksReplica(setup.books("b", database=deaf)).start()
        notices = await _deafen(deaf, postgres_url)
        await setup.create("second")
        await all_placed(setup, "second")
        newest = await database.read(log.head)

        async def knows_it() -> bool:
            return two.books.seq >= newest

        await until(knows_it)
        assert deaf.notifier.count == notices, "nobody woke it"
        assert not two.books.is_leader
        await two.stop()
        await one.stop()

    database, deaf = (open_database(postgres_url, limits=PATIENT) for _ in range(2))
    try:
        asyncio.run(story(database, deaf))
    finally:
        deaf.close()
        database.close()


async def _deafen(database: Database, url: str) -> int:
    """Cut the connection that listens, let it not come back, and return how many notices there were."""
    notifier = database.notifier
    assert isinstance(notifier, PostgresNotifier)
    assert await asyncio.to_thread(notifier.is_listening.wait, 30)
    ending = asyncio.ensure_future(asyncio.to_thread(notifier.close))
    await asyncio.to_thread(_cut_listeners, url)
    await ending
    return notifier.count


def _cut_listeners(url: str) -> None:
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'hostler-listen' AND datname = current_database()"
    )
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql")) as connection:
        connection.execute(cut)
