"""A leader that stood still while another took over: what it decided before it noticed is refused as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.control.store import Database
from hostler.control.store.errors import LeaseLostError
from tests.control.books.replica_setup import BooksReplica, ReplicaSetup, all_placed, at_rest
from tests.wait import until


class StallingDatabase:
    """A database that can delay a replica before it renews the lease or writes a step."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.renewals, self.steps = asyncio.Event(), asyncio.Event()  # set: they go through
        self.renewals.set()
        self.steps.set()
        self.has_decided = asyncio.Event()
        self.refused: list[Exception] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def write(self, work: Any) -> Any:
        name = getattr(work, "__qualname__", "")
        if name.startswith("ReplicaLeadership."):
            await self.renewals.wait()
        if not name.startswith("Books._step"):
            return await self._database.write(work)
        if not self.steps.is_set():
            self.has_decided.set()
            await self.steps.wait()
        try:
            return await self._database.write(work)
        except LeaseLostError as error:
            self.refused.append(error)
            raise


async def test_a_step_of_a_leader_that_did_not_notice_its_successor_is_refused(database):
    setup = ReplicaSetup(database)
    stalling = StallingDatabase(database)
    await setup.build(3)
    one = await BooksReplica(setup.books("a", database=stalling)).start()
    await setup.create("first")
    await all_placed(setup, "first")
    two = await BooksReplica(setup.books("b")).start()
    await at_rest(setup, one.books, two.books)
    stalling.renewals.clear()
    stalling.steps.clear()
    await setup.create("second")
    await stalling.has_decided.wait()  # and nothing of it is written yet
    await setup.run_out()
    await all_placed(setup, "second")
    assert one.books.is_leader, "it has not noticed"
    assert two.books.is_leader
    assert (one.books.epoch, two.books.epoch) == (1, 2)
    await at_rest(setup, two.books)
    written, rebuilt = await setup.entries(), one.books.rebuilds
    stalling.steps.set()
    await until(lambda: one.books.rebuilds > rebuilt)
    assert [type(error) for error in stalling.refused] == [LeaseLostError]
    assert not one.books.is_leader
    assert await setup.entries() == written, "nothing of its step is in the log"
    assert sum((await setup.kept()).values()) == 2000
    stalling.renewals.set()
    await setup.create("third")
    await all_placed(setup, "third")
    await until(lambda: one.books.seq == two.books.seq)
    assert not one.books.trouble
    await one.stop()
    await two.stop()
