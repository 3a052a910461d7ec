"""Where a replica begins: with a checkpoint, the one before it, or the log; without any of them it only answers."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from sqlalchemy import text

from hostler.control.books.follower import Follower
from hostler.control.store import Database
from hostler.control.store.history import log
from tests.control.books.replica_setup import BooksReplica, ReplicaSetup, all_placed, at_rest
from tests.wait import until

NONE = b"nothing that an engine could be made of"


async def lived_through(database: Database) -> ReplicaSetup:
    """Give a log with two checkpoints in it and decisions behind both."""
    setup = ReplicaSetup(database)
    await setup.build(2)
    replica = await BooksReplica(setup.books("first")).start()
    for name in ("a", "b", "c"):
        await setup.create(name)
        await all_placed(setup, name)
        await at_rest(setup, replica.books)
        held = replica.books.leadership.held
        assert held is not None
        if name != "c":
            await replica.books._save_checkpoint(held)
    await replica.kill()
    await setup.run_out()
    return setup


def of_another_past() -> bytes:
    """Return the checkpoint of an engine that knows no host: the log's next step is not what it would decide.

    It has no digest, as if a release without digests had written it: else its number in the log would give it away.
    """
    return msgspec.msgpack.encode({"read": 0, "engine": Follower.begin().engine.checkpoint()})


async def overwrite(setup: ReplicaSetup, body: bytes, *, count: int) -> list[int]:
    """Put something else into the newest checkpoints; return their numbers."""

    def work(connection) -> list[int]:
        kept: list[int] = []
        before: int | None = None
        while len(kept) < count and (found := log.checkpoint_before(connection, before)) is not None:
            kept.append(before := found.seq)
            changed = text("UPDATE checkpoints SET body = :body WHERE seq = :seq")
            connection.execute(changed, {"body": body, "seq": found.seq})
        return kept

    return await setup.database.write(work)


DAMAGES = [pytest.param(NONE, id="unreadable"), pytest.param(of_another_past(), id="diverges")]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_unusable_checkpoint_falls_back_to_what_is_before_it(database, damage, count):
    """With one of two it is the older checkpoint, with both the log; then the replica leads, and saves a good one."""

    setup = await lived_through(database)
    damaged = await overwrite(setup, damage, count=count)
    assert len(damaged) == count
    replica = await BooksReplica(setup.books("second")).start()
    assert replica.books.is_ready
    assert replica.books.unusable_checkpoints == count
    assert sum("cannot be used" in line for line in setup.said) == count, setup.said
    homes = await setup.where("a", "b", "c")
    await setup.create("d")
    await all_placed(setup, "d")
    assert await setup.where("a", "b", "c") == homes
    await replica.stop()  # which saves a checkpoint, and removes what could not be used
    third = setup.books("third")
    await third.open()
    assert third.is_ready
    assert third.unusable_checkpoints == 0
    for number in damaged:
        kept = await setup.database.read(partial(log.checkpoint_before, seq=number + 1))
        assert kept is None or kept.seq != number
    await third.close()


async def test_log_is_kept_since_the_older_checkpoint(database):
    """Retention asks for all of it to go; a replica that cannot use the newest checkpoint starts all the same."""

    setup = await lived_through(database)
    head = await setup.database.read(log.head)
    await setup.database.write(lambda connection: log.forget_before(connection, head + 1))
    await overwrite(setup, NONE, count=1)
    books = setup.books("second")
    await books.open()
    assert books.is_ready
    assert books.seq == head
    await books.close()


@pytest.mark.parametrize("damage", DAMAGES)
async def test_replica_without_usable_start_answers_and_never_leads(database, damage):
    """Nothing is left to begin with: it is up, says so, takes no lease, and comes back when there is a checkpoint."""

    setup = await lived_through(database)
    head = await setup.database.read(log.head)
    good = await setup.database.read(log.checkpoint_before)
    await setup.database.write(lambda connection: log.forget_before(connection, head + 1))
    await overwrite(setup, damage, count=2)
    replica = await BooksReplica(setup.books("second")).start()
    assert not replica.books.is_ready
    assert replica.books.trouble
    tries = replica.books.rebuilds
    await until(lambda: replica.books.rebuilds > tries + 1)
    assert not replica.books.is_leader
    await replica.books.ask(lambda engine: engine.now)  # pages ask for this and that
    await setup.create("waits")
    assert await setup.where("waits") == {"waits": ""}

    def work(connection) -> None:
        log.save_checkpoint(connection, good)

    await setup.database.write(work)
    await all_placed(setup, "waits")
    assert replica.books.is_ready
    assert replica.books.is_leader
    await replica.stop()
