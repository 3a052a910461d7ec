"""Questions to a twin of the engine: decisions go on beside them, and only a few of the long ones wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hostler.control.books.books import Books
from hostler.control.store import Database
from hostler.engine import Engine
from hostler.errors import UnavailableError
from tests.control.books.town import Replica, Town, all_placed
from tests.wait import GIVE_UP_S, until


class Slow:
    """A question that takes as long as the test wants."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def work(self, engine: Engine) -> int:
        """Wait for leave, then count the guests of the twin."""
        self.has_begun.set()
        assert self.may_end.wait(GIVE_UP_S)
        return sum(1 for _ in engine.guests())


async def begun(slow: Slow) -> None:
    await until(slow.has_begun.is_set)


def test_a_slow_question_keeps_nobody_from_deciding_nor_from_looking(database: Database) -> None:
    async def scene() -> None:
        town = Town(database)
        await town.build(2)
        books = town.books("a")
        replica = await Replica(books).start()
        slow = Slow()
        asking = asyncio.ensure_future(books.what_if(slow.work))
        try:
            await begun(slow)
            await town.create("web")
            await all_placed(town, "web")
            seen, seq = await books.ask(lambda engine: list(engine.guests()))
            assert seen == ["web"]
        finally:
            slow.may_end.set()
        counted, before = await asking
        assert counted == 0  # the twin is as the engine was when it was made
        assert before < seq
        await replica.stop()

    asyncio.run(scene())


def test_a_few_long_questions_wait_and_more_are_told_to_come_again(database: Database) -> None:
    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        books = town.books("a")
        await books.open()
        slow = Slow()
        first = asyncio.ensure_future(books.what_if(slow.work))
        await begun(slow)
        waiting = [asyncio.ensure_future(books.what_if(slow.work)) for _ in range(8)]
        await asyncio.sleep(0)
        try:
            with pytest.raises(UnavailableError) as refused:
                await books.what_if(slow.work)
            assert refused.value.hint
        finally:
            slow.may_end.set()
        assert [counted for counted, _ in await asyncio.gather(first, *waiting)] == [0] * 9
        assert (await books.what_if(slow.work))[0] == 0
        await books.close()

    asyncio.run(scene())


def test_whoever_waits_when_the_books_are_closed_is_told_so(database: Database) -> None:
    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        books: Books = town.books("a")
        await books.open()
        slow = Slow()
        first = asyncio.ensure_future(books.what_if(slow.work))
        await begun(slow)
        second = asyncio.ensure_future(books.what_if(slow.work))
        await until(lambda: books._what_ifs._waiting == 1)
        closing = asyncio.ensure_future(books.close())
        await until(lambda: books._what_ifs._thread._is_closed)
        slow.may_end.set()
        await closing
        assert (await first)[0] == 0
        with pytest.raises(UnavailableError):
            await second

    asyncio.run(scene())
