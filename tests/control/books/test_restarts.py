"""A control plane that dies again and again decides as one that never stopped."""

from __future__ import annotations

import asyncio
import random

import pytest

from hostler.control.books.books import Books
from hostler.control.settings import ControlSettings
from hostler.control.store import Database, log, open_database
from hostler.control.vms import wishes
from tests.control.books.town import SECOND, Town

SETTINGS = ControlSettings(lease_ttl_s=0.01, renew_s=0.01, checkpoint_every=30, decide_at_once=4)


class Life:
    """Books that are driven by hand, step by step, and can be thrown away between any two."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.books: Books | None = None
        self.lives = 0

    async def begin(self) -> None:
        self.lives += 1
        self.books = self.town.books(f"life-{self.lives}", SETTINGS)
        await self.books.open()
        while not self.books.is_leader:
            await self.books.leadership._renew_or_take()
            await asyncio.sleep(0.005)

    async def die(self) -> None:
        assert self.books is not None
        await self.books.close()
        self.books = None

    async def decide(self) -> None:
        assert self.books is not None
        await self.books._read_log()
        held = self.books.leadership.held
        assert held is not None
        due = self.books._follower.next_due()
        if due is not None:
            await self.books._step(held, self.books._follower, max(self.town.now, due))
            await self.books._read_log()
            await self.books._checkpoint_now_and_then(held)


async def story(database: Database, seed: int, *, dies: bool) -> list[tuple[str, str]]:
    """Let the same things happen, with or without deaths; return who was bound where, in order."""
    chance, dice = random.Random(seed), random.Random(seed + 1)
    town = Town(database)
    town.clock = lambda: town.now  # type: ignore[method-assign]
    await town.build(6, cpu=12)
    life = Life(town)
    await life.begin()
    alive: list[str] = []
    for number in range(60):
        town.now += SECOND
        if alive and chance.random() < 0.3:
            await town.wish(alive.pop(chance.randrange(len(alive))), wishes.delete)
        else:
            name = f"vm-{number}"
            await town.create(name, cpu=chance.choice([1, 2, 3]), priority=chance.choice([0, 0, 5]))
            alive.append(name)
        if chance.random() < 0.6:
            await life.decide()
        if dies and dice.random() < 0.25:
            await life.die()
            await life.begin()
    for _ in range(20):
        town.now += 60 * SECOND
        await life.decide()
    await life.die()
    entries = await database.read(lambda connection: log.read_after(connection, 0, 100_000))
    return [(entry.subject, entry.body.decode()) for entry in entries if b'"guest_bound"' in entry.body]


@pytest.mark.parametrize("seed", range(6))
def test_deaths_between_decisions_do_not_change_them(tmp_path, seed):
    def play(name: str, *, dies: bool) -> list[tuple[str, str]]:
        database = open_database(f"sqlite:///{tmp_path / name}")
        try:
            return asyncio.run(story(database, seed, dies=dies))
        finally:
            database.close()

    never, often = play("never.db", dies=False), play("often.db", dies=True)
    assert len(never) > 20
    assert often == never
