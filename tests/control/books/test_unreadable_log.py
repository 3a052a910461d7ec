"""A replica that cannot follow the log: it says so, leads nobody, and comes back once it has read everything."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.control.books.follower import LogNotFollowedError, Step, digest_of_actions
from hostler.control.store import Database
from hostler.control.store.history import lease, log
from tests.control.api.service_in_process import open_service
from tests.control.books.replica_setup import BooksReplica, ReplicaSetup, all_placed, at_rest
from tests.wait import until


class ForeignLog:
    """A database as a replica of another version reads it: it understands one entry of the log otherwise."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.seq = 0
        self.body = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def written_after(self, seq: int) -> list[log.StoredEntry]:
        return []  # that replica is another process

    async def read(self, work: Any) -> Any:
        found = await self._database.read(work)
        return [self._seen(one) for one in found] if isinstance(found, list) else found

    def _seen(self, one: object) -> object:
        if isinstance(one, log.StoredEntry) and one.seq == self.seq:
            return msgspec.structs.replace(one, body=self.body)
        return one


async def a_step_with_another_digest(setup: ReplicaSetup, foreign: ForeignLog) -> None:
    """Let a leader write that nothing was to be decided; the foreign replica reads that something was decided."""
    seq = await setup.database.read(log.head)
    step = Step(now=setup.clock(), upto=seq, limit=100, digest=digest_of_actions([]))
    foreign.seq, foreign.body = seq + 1, msgspec.json.encode(msgspec.structs.replace(step, digest="another"))
    entry = log.NewEntry(at_ns=step.now, kind="step", body=msgspec.json.encode(step))
    await setup.database.write(lambda connection: log.append(connection, [entry]))


async def a_fact_of_a_newer_version(setup: ReplicaSetup, foreign: ForeignLog) -> None:
    """Let a fact be written for which the foreign replica has no word."""
    foreign.seq, foreign.body = await setup.database.read(log.head) + 1, b'{"event":"host_painted","colour":"red"}'
    await setup.add_host(77)


CASES = [
    pytest.param(a_step_with_another_digest, "otherwise", id="digest"),
    pytest.param(a_fact_of_a_newer_version, "host_painted", id="unknown-tag"),
]


@pytest.mark.parametrize(("forge", "word"), CASES)
async def test_leader_that_cannot_follow_log_yields_to_one_that_can(database, forge, word):
    setup = ReplicaSetup(database)
    foreign = ForeignLog(database)
    await setup.build(2)
    one = await BooksReplica(setup.books("a", database=foreign)).start()
    await setup.create("first")
    await all_placed(setup, "first")
    assert one.books.is_leader
    two = await BooksReplica(setup.books("b")).start()
    await at_rest(setup, one.books, two.books)
    await forge(setup, foreign)
    await until(lambda: bool(one.books.trouble))
    assert word in one.books.trouble
    assert not one.books.is_ready
    await setup.create("second")
    await all_placed(setup, "second")
    assert two.books.is_leader
    assert two.books.is_ready
    assert not one.books.is_leader
    assert one.task is not None
    assert not one.task.done()
    foreign.seq = 0  # it was upgraded, or the leader left a checkpoint behind that entry
    await until(lambda: one.books.is_ready)
    assert one.books.trouble == ""
    await two.stop()
    await setup.create("third")
    await all_placed(setup, "third")
    assert one.books.is_leader
    await one.stop()


async def test_replica_that_diverges_continues_from_leaders_checkpoint(database):
    """As in an upgrade: the new program cannot follow the old one, until that is stopped."""

    setup = ReplicaSetup(database)
    foreign = ForeignLog(database)
    await setup.build(2)
    old = await BooksReplica(setup.books("old")).start()
    await setup.create("first")
    await all_placed(setup, "first")
    new = await BooksReplica(setup.books("new", database=foreign)).start()
    await at_rest(setup, old.books, new.books)
    await a_step_with_another_digest(setup, foreign)
    await until(lambda: bool(new.books.trouble))
    await at_rest(setup, old.books)  # its last checkpoint must lie behind the step that it did not write itself
    await old.stop()
    await setup.create("second")
    await all_placed(setup, "second")
    assert new.books.is_leader
    assert new.books.is_ready
    await new.stop()


@pytest.mark.parametrize(("forge", "word"), CASES)
async def test_lone_replica_that_cannot_follow_log_releases_lease(database, forge, word):
    setup = ReplicaSetup(database)
    foreign = ForeignLog(database)
    await setup.build(1)
    replica = await BooksReplica(setup.books("a", database=foreign)).start()
    await setup.create("first")
    await all_placed(setup, "first")
    await at_rest(setup, replica.books)
    await forge(setup, foreign)

    async def is_free() -> bool:
        return not (await database.read(lease.read)).holder

    await until(is_free)
    assert not replica.books.is_ready
    rebuilt = replica.books.rebuilds
    await until(lambda: replica.books.rebuilds > rebuilt)
    assert await is_free()
    told = [line for line in setup.said if word in line]
    assert len(told) == 1, "it is logged once, not at each try"
    await replica.stop()


async def test_a_replica_that_starts_with_a_log_it_cannot_follow_says_so(database):
    setup = ReplicaSetup(database)
    foreign = ForeignLog(database)
    await setup.build(1)
    await a_fact_of_a_newer_version(setup, foreign)
    books = setup.books("a", database=foreign)
    await books.open()
    assert "host_painted" in books.trouble
    assert any("host_painted" in line and "version" in line for line in setup.said)
    assert not books.is_ready
    await books.close()


async def test_the_engine_of_a_replica_that_went_astray_is_never_kept(database):
    setup = ReplicaSetup(database)
    foreign = ForeignLog(database)
    await setup.build(1)
    books = setup.books("a", database=foreign)
    await books.open()
    await a_fact_of_a_newer_version(setup, foreign)
    for _ in range(2):  # no entry behind the one that cannot be followed is read either
        with pytest.raises(LogNotFollowedError):
            await books._read_log()
    with pytest.raises(LogNotFollowedError):
        books._follower.checkpoint(setup.clock())
    assert books.seq == foreign.seq - 1
    await books.close()


async def test_a_service_that_cannot_follow_the_log_says_why_it_is_not_ready():
    async with open_service() as service:
        assert (await service.ask("GET", "/readyz")).status_code == 200
        service.context.books.trouble = "entry 9 of the log is of another version"
        answer = await service.ask("GET", "/readyz")
        why = "this replica cannot follow what is written to the database; the service's log says why"
        assert (answer.status_code, answer.json()["why"]) == (503, why)
