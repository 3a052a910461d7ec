"""A leader that stood still while another took over: what it decided before it noticed is refused as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.control.store import Database
from hostler.control.store.errors import LeaseLostError
from tests.control.books.town import Replica, Town, all_placed, at_rest
from tests.wait import until


class Stalling:
    """A database that lets a replica wait, when it is told to, before it renews the lease or writes a step."""

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
        if name.startswith("Leadership."):
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


def test_a_step_of_a_leader_that_did_not_notice_its_successor_is_refused(database):
    async def scene() -> None:
        town = Town(database)
        stalling = Stalling(database)
        await town.build(3)
        one = await Replica(town.books("a", database=stalling)).start()
        await town.create("first")
        await all_placed(town, "first")
        two = await Replica(town.books("b")).start()
        await at_rest(town, one.books, two.books)
        stalling.renewals.clear()
        stalling.steps.clear()
        await town.create("second")
        await stalling.has_decided.wait()  # and nothing of it is written yet
        await town.run_out()
        await all_placed(town, "second")
        assert one.books.is_leader, "it has not noticed"
        assert two.books.is_leader
        assert (one.books.epoch, two.books.epoch) == (1, 2)
        await at_rest(town, two.books)
        written, rebuilt = await town.entries(), one.books.rebuilds
        stalling.steps.set()
        await until(lambda: one.books.rebuilds > rebuilt)
        assert [type(error) for error in stalling.refused] == [LeaseLostError]
        assert not one.books.is_leader
        assert await town.entries() == written, "nothing of its step is in the log"
        assert sum((await town.kept()).values()) == 2000
        stalling.renewals.set()
        await town.create("third")
        await all_placed(town, "third")
        await until(lambda: one.books.seq == two.books.seq)
        assert not one.books.trouble
        await one.stop()
        await two.stop()

    asyncio.run(scene())
