"""A leader that is stopped while it writes a step leaves a checkpoint behind all its steps, whatever became of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from hostler.control.books.follower import Follower
from hostler.control.store import Connection, Database
from hostler.control.store.history import log
from tests.control.books.replica_setup import SETTINGS, BooksReplica, ReplicaSetup, all_placed, at_rest
from tests.wait import GIVE_UP_S, until


class Unanswered:
    """A database that never answers for one given step, whether it is written or not."""

    def __init__(self, database: Database, *, is_written: bool) -> None:
        self._database = database
        self._is_written = is_written
        self.is_due = False
        self.has_come = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def write(self, work: Any) -> Any:
        is_step = getattr(work, "__qualname__", "").startswith("Books._step")
        if not is_step or not self.is_due:
            return await self._database.write(work)
        self.is_due = False
        if self._is_written:
            await self._database.write(work)
        self.has_come.set()
        await asyncio.Event().wait()


class Lingering:
    """A database that writes one given step, and does not commit it before it may."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_due = False
        self.has_come, self.may_commit = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def write(self, work: Any) -> Any:
        is_step = getattr(work, "__qualname__", "").startswith("Books._step")
        if not is_step or not self.is_due:
            return await self._database.write(work)
        self.is_due = False

        def linger(connection: Connection) -> Any:
            result = work(connection)
            self.has_come.set()
            self.may_commit.wait(GIVE_UP_S)
            return result

        return await self._database.write(linger)


async def steps_to_repeat(setup: ReplicaSetup) -> int:
    """Return how many steps a replica that begins with the checkpoint has to repeat."""
    saved = await setup.database.read(log.checkpoint_before)
    assert saved is not None
    done = max(saved.seq, Follower.restore(saved)._done)
    return sum(entry.kind == "step" and entry.seq > done for entry in await setup.entries())


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not-written"])
async def test_next_replica_repeats_no_step_of_it(database, is_written):
    setup = ReplicaSetup(database)
    await setup.build(2)
    unanswered = Unanswered(database, is_written=is_written)
    first = await BooksReplica(setup.books("a", database=unanswered)).start()
    await setup.create("first")
    await all_placed(setup, "first")
    await at_rest(setup, first.books)
    unanswered.is_due = True
    await setup.create("second")
    await unanswered.has_come.wait()
    await first.stop()
    assert await steps_to_repeat(setup) == 0
    second = await BooksReplica(setup.books("b")).start()
    await all_placed(setup, "second")
    await second.stop()


async def test_stop_during_step_commit_waits_for_its_outcome(database):
    setup = ReplicaSetup(database)
    await setup.build(2)
    lingering = Lingering(database)
    seldom = msgspec.structs.replace(SETTINGS, renew_s=3600)  # nothing else is to wait for the writer
    first = await BooksReplica(setup.books("a", seldom, lingering)).start()
    await setup.create("first")
    await all_placed(setup, "first")
    await at_rest(setup, first.books)
    lingering.is_due = True
    await setup.create("second")
    await asyncio.to_thread(lingering.has_come.wait, 120)
    stopping = asyncio.ensure_future(first.stop())
    await until(lambda: database.waiting > 0)
    lingering.may_commit.set()
    await stopping
    assert (await setup.where("second"))["second"]
    assert await steps_to_repeat(setup) == 0
