"""A new leader knows the whole log before it decides, and what it wrote there itself."""

from __future__ import annotations

import msgspec

from hostler.control.books.books import Books
from hostler.control.settings import policies_for
from hostler.control.store import Connection
from hostler.control.store.history import lease, log
from tests.control.books.replica_setup import SETTINGS, BooksReplica, ReplicaSetup, all_placed

PACKING = msgspec.structs.replace(SETTINGS, strategy="best_fit")


async def begin_to_lead(setup: ReplicaSetup, books: Books) -> None:
    """Let books get the lease and get ready, and decide nothing."""
    await books.open()
    held = await setup.database.write(lambda connection: lease.take(connection, books.replica, 3600))
    assert held is not None
    await books._begin_to_lead(held)


async def test_what_must_be_known_before_the_first_decision_is_known_by_then(database):
    setup, books = ReplicaSetup(database), ReplicaSetup(database).books("a")
    await setup.build(1)

    def write(connection: Connection) -> None:
        log.append(connection, [log.NewEntry(at_ns=setup.now, kind="note", body=b"{}")])

    books.before_leading = write
    await begin_to_lead(setup, books)
    assert books.seq == await database.read(log.head)
    await books.close()


async def test_strategy_of_leader_that_died_unstepped_is_not_inherited(database):
    setup = ReplicaSetup(database)
    await setup.build(2)
    died = setup.books("a", PACKING)
    await begin_to_lead(setup, died)
    await died.close()
    await setup.run_out()
    successor = await BooksReplica(setup.books("b")).start()
    await setup.create("first")
    await all_placed(setup, "first")
    assert successor.books._follower.engine.policies == policies_for(SETTINGS)
    await successor.stop()
