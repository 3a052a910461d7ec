"""A control plane that dies again and again, or is down for an hour, decides as one that never stopped."""

from __future__ import annotations

import asyncio
import random
from typing import Literal

import msgspec
import pytest

from hostler.control.books.books import Books
from hostler.control.settings import ControlSettings
from hostler.control.store import Database, open_database
from hostler.control.store.history import log
from hostler.control.vms import desired_state
from hostler.control.vms.state import state_of
from hostler.model import Event, Gang, GangChanged, Reservation, ReservationChanged, amounts
from tests.control.books.replica_setup import SECOND, ReplicaSetup

SETTINGS = ControlSettings(lease_ttl_s=0.01, renew_s=0.01, checkpoint_every=30, decide_at_once=4)


class RestartingBooks:
    """Books that are driven by hand, step by step, and can be thrown away between any two."""

    def __init__(self, setup: ReplicaSetup) -> None:
        self.setup = setup
        self.books: Books | None = None
        self.lives = 0

    async def begin(self) -> None:
        self.lives += 1
        self.books = self.setup.books(f"life-{self.lives}", SETTINGS)
        await self.books.open()
        while not self.books.is_leader:
            await self.books.leadership._renew_or_take()
            await asyncio.sleep(0.005)

    async def die(self) -> None:
        assert self.books is not None
        await self.books.close()
        self.books = None

    async def stop(self) -> None:
        """End as a service does on a signal: with a checkpoint, and the lease released."""
        assert self.books is not None
        await self.books._leave()
        await self.die()

    async def wait(self, until: int) -> None:
        """Let time pass, and decide whenever that is due."""
        assert self.books is not None
        await self.books._read_log()
        while (due := self.books._follower.next_due()) is not None and due <= until:
            self.setup.now = max(self.setup.now, due)
            await self.decide()
        self.setup.now = until

    async def decide(self) -> None:
        assert self.books is not None
        await self.books._read_log()
        held = self.books.leadership.held
        assert held is not None
        due = self.books._follower.next_due()
        if due is not None:
            await self.books._step(held, self.books._follower, max(self.setup.now, due))
            await self.books._read_log()
            await self.books._checkpoint_now_and_then(held)


async def story(database: Database, seed: int, *, dies: bool) -> list[tuple[str, str]]:
    """Let the same things happen, with or without deaths; return who was bound where, in order."""
    chance, dice = random.Random(seed), random.Random(seed + 1)
    setup = ReplicaSetup(database)
    setup.clock = lambda: setup.now  # type: ignore[method-assign]
    await setup.build(6, cpu=12)
    life = RestartingBooks(setup)
    await life.begin()
    alive: list[str] = []
    for number in range(60):
        setup.now += SECOND
        if alive and chance.random() < 0.3:
            await setup.wish(alive.pop(chance.randrange(len(alive))), desired_state.delete)
        else:
            name = f"vm-{number}"
            await setup.create(name, cpu=chance.choice([1, 2, 3]), priority=chance.choice([0, 0, 5]))
            alive.append(name)
        if chance.random() < 0.6:
            await life.decide()
        if dies and dice.random() < 0.25:
            await life.die()
            await life.begin()
    for _ in range(20):
        setup.now += 60 * SECOND
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


MINUTE = 60 * SECOND
Hour = Literal["up", "stopped", "killed"]


async def tell(setup: ReplicaSetup, *facts: Event) -> None:
    entries = [log.NewEntry(at_ns=setup.now, kind="fact", body=msgspec.json.encode(fact)) for fact in facts]
    await setup.database.write(lambda connection: log.append(connection, entries))


async def hour(database: Database, how: Hour) -> dict[str, tuple[str, str, str]]:
    """Let an hour pass in which much comes to its end, and go on; return how each VM is, where, and why."""
    setup = ReplicaSetup(database)
    setup.clock = lambda: setup.now  # type: ignore[method-assign]
    start = setup.now
    life = RestartingBooks(setup)
    await life.begin()
    await setup.build(2, cpu=8)
    pair = Gang(name="pair", version=1, min_count=2, when_broken="release_after", release_after_ns=10 * MINUTE)
    over = Reservation(name="over", version=1, tenant="other", amounts=amounts({"cpu": 7000}),
                       since=start + 20 * MINUTE, until=start + 40 * MINUTE)  # fmt: skip
    begun = Reservation(name="begun", version=1, tenant="other", amounts=amounts({"cpu": 4000}),
                        since=start + 30 * MINUTE)  # fmt: skip
    await tell(setup, GangChanged(gang=pair), *[ReservationChanged(reservation=one) for one in (over, begun)])
    for name, cpu, gang in (("pair-a", 1, "pair"), ("pair-b", 1, "pair"), ("huge", 12, "")):
        await setup.create(name, cpu=cpu, gang=gang)
    await life.wait(start + SECOND)
    await setup.wish("pair-a", desired_state.delete)
    await life.wait(start + 2 * SECOND)
    if how == "up":
        await life.wait(start + 60 * MINUTE)
    else:
        await (life.stop() if how == "stopped" else life.die())
        setup.now = start + 60 * MINUTE
        await life.begin()
    for number in range(3):
        await setup.create(f"late-{number}", cpu=3)
    await setup.add_host(2, cpu=16)
    await life.wait(start + 61 * MINUTE)
    await life.die()
    vms = [await setup.vm(name) for name in ("pair-a", "pair-b", "huge", "late-0", "late-1", "late-2")]
    return {vm.name: (state_of(vm), vm.home.name if vm.home is not None else "", vm.why) for vm in vms}


def test_service_down_for_an_hour_decides_as_its_twin(tmp_path):
    def play(how: Hour) -> dict[str, tuple[str, str, str]]:
        database = open_database(f"sqlite:///{tmp_path / how}.db")
        try:
            return asyncio.run(hour(database, how))
        finally:
            database.close()

    found = play("up")
    assert found["pair-b"][0] == "stopping", "a gang that was broken for its ten minutes is released"
    assert found["huge"][1] == "host-2", "beside room that is reserved since"
    assert [found[f"late-{number}"][1] for number in range(3)] == ["host-0", "host-1", ""]
    assert play("stopped") == found
    assert play("killed") == found
