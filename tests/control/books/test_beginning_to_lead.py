"""Whoever begins to lead knows all that stands in the log before it decides, and what it wrote there itself."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.control.books.books import Books
from hostler.control.settings import policies_for
from hostler.control.store import Connection, lease, log
from tests.control.books.town import SETTINGS, Replica, Town, all_placed

PACKING = msgspec.structs.replace(SETTINGS, strategy="best_fit")


async def begin_to_lead(town: Town, books: Books) -> None:
    """Let books get the lease and get ready, and decide nothing."""
    await books.open()
    held = await town.database.write(lambda connection: lease.take(connection, books.replica, 3600))
    assert held is not None
    await books._begin_to_lead(held)


def test_what_must_be_known_before_the_first_decision_is_known_by_then(database):
    async def scene() -> None:
        town, books = Town(database), Town(database).books("a")
        await town.build(1)

        def write(connection: Connection) -> None:
            log.append(connection, [log.NewEntry(at_ns=town.now, kind="note", body=b"{}")])

        books.before_leading = write
        await begin_to_lead(town, books)
        assert books.seq == await database.read(log.head)
        await books.close()

    asyncio.run(scene())


def test_a_strategy_of_a_leader_that_died_before_its_first_step_is_not_that_of_its_successor(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(2)
        died = town.books("a", PACKING)
        await begin_to_lead(town, died)
        await died.close()
        await town.run_out()
        successor = await Replica(town.books("b")).start()
        await town.create("first")
        await all_placed(town, "first")
        assert successor.books._follower.engine.policies == policies_for(SETTINGS)
        await successor.stop()

    asyncio.run(scene())
