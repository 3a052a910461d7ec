"""Looks at a twin of the engine: decisions go on beside them, and what-ifs keep nobody from looking."""

from __future__ import annotations

import asyncio
import threading

from hostler.control.store import Database
from hostler.engine import Engine
from tests.control.books.replica_setup import BooksReplica, ReplicaSetup, all_placed
from tests.wait import GIVE_UP_S, until


class SlowQuestion:
    """A question that takes as long as the test wants."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def work(self, engine: Engine, seq: int) -> tuple[int, int]:
        """Wait for leave, then count the guests of the twin, and say what it knows."""
        self.has_begun.set()
        assert self.may_end.wait(GIVE_UP_S)
        return sum(1 for _ in engine.guests()), seq


async def begun(slow: SlowQuestion) -> None:
    await until(slow.has_begun.is_set)


async def test_a_slow_question_keeps_nobody_from_deciding_nor_from_looking(database: Database) -> None:
    setup = ReplicaSetup(database)
    await setup.build(2)
    books = setup.books("a")
    replica = await BooksReplica(books).start()
    slow = SlowQuestion()
    asking = asyncio.ensure_future(books.what_if(slow.work))
    try:
        await begun(slow)
        await setup.create("web")
        await all_placed(setup, "web")
        seen, seq = await books.ask(lambda engine: list(engine.guests()))
        assert seen == ["web"]
    finally:
        slow.may_end.set()
    counted, before = await asking
    assert counted == 0  # the twin is as the engine was when it was made
    assert before < seq
    await replica.stop()
