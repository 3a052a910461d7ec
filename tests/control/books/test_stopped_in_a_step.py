"""A leader that is stopped while it writes a step leaves a checkpoint behind all its steps, whatever became of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.control.store import Database, log
from tests.control.books.town import Replica, Town, all_placed


class Unanswered:
    """A database that never answers for the step that it is told of, which is written or not."""

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


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not-written"])
def test_whoever_comes_next_repeats_no_step_of_it(database, is_written):
    async def scene() -> None:
        town = Town(database)
        await town.build(2)
        unanswered = Unanswered(database, is_written=is_written)
        first = await Replica(town.books("a", database=unanswered)).start()
        await town.create("first")
        await all_placed(town, "first")
        unanswered.is_due = True
        await town.create("second")
        await unanswered.has_come.wait()
        await first.stop()
        saved = await database.read(log.latest_checkpoint)
        assert saved is not None
        behind = [entry for entry in await town.entries() if entry.seq > saved.seq]
        assert [entry.kind for entry in behind if entry.kind == "step"] == []
        second = await Replica(town.books("b")).start()
        await all_placed(town, "second")
        await second.stop()

    asyncio.run(scene())
