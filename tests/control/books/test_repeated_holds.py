"""Holds that say again what is written: they write nothing, and rows end as if every hold had read its VM."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.control.books import ledger
from hostler.control.books.decisions import StepOutcome, carry_out
from hostler.control.books.follower import Step
from hostler.control.books.repeated_holds import HoldText, RepeatedHolds
from hostler.control.store import open_database
from hostler.control.store.history import lease
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from hostler.errors import HostlerError
from hostler.model import Defer, Evict
from tests.control.books.replica_setup import ReplicaSetup

NAMES = ("a", "b", "c")
STEP = Step(now=0, upto=0, limit=0, digest="")


def hold(uid: str) -> Defer:
    return Defer(guest=uid, uid=uid, seq=1, hosts=1)


class Leader:
    """Carries out holds on a database of its own, with the memory of holds or without."""

    def __init__(self, folder: Path, *, has_memory: bool = True) -> None:
        self.database = open_database(f"sqlite:///{folder / str(has_memory)}.db")
        self.setup = ReplicaSetup(self.database)
        self.repeated = RepeatedHolds() if has_memory else None
        self.epoch = 0

    async def build(self) -> None:
        await self.setup.build(1)
        for name in NAMES:
            await self.setup.create(name)
        held = await self.database.write(lambda connection: lease.take(connection, "test", 3600.0))
        assert held is not None
        self.epoch = held.epoch

    async def hold(
        self, whys: dict[str, str], *, promised: frozenset[str] = frozenset(), is_lost: bool = False
    ) -> None:
        decided = StepOutcome(
            step=STEP, actions=[hold(uid) for uid in whys], versions={}, reasons=whys, promised=promised
        )

        def work(connection):
            seq = carry_out(connection, self.epoch, decided, 1, self.repeated)
            if is_lost:
                raise HostlerError("rolled back", hint="")
            return seq

        with suppress(HostlerError):
            await self.database.write(work)
            if self.repeated is not None:
                self.repeated.commit()

    async def news_of(self, *actions: Defer | Evict, why: str = "full") -> list[str]:
        """Carry out actions; return the VMs about which watchers are notified."""
        assert self.repeated is not None
        decided = StepOutcome(step=STEP, actions=actions, versions={}, reasons=dict.fromkeys(NAMES, why))
        entries = len(await self.setup.entries())
        await self.database.write(lambda connection: carry_out(connection, self.epoch, decided, 1, self.repeated))
        self.repeated.commit()
        news = [e for e in (await self.setup.entries())[entries:] if e.subject == ledger.NEWS]
        return [vm for entry in news for vm in msgspec.json.decode(entry.body, type=ledger.ChangeNotice).vms]

    async def rows(self) -> list[tuple[Any, ...]]:
        found = await self.database.read(lambda connection: ledger.load_many(connection, NAMES))
        timeless = [msgspec.structs.replace(one.vm, waits_since_ns=0) for one in found.values()]
        return [(vm.why, vm, one.row.version) for vm, one in zip(timeless, found.values(), strict=True)]

    async def written(self) -> list[tuple[str, bytes]]:
        return [(entry.kind, entry.body) for entry in await self.setup.entries()]


@asynccontextmanager
async def leader_at(tmp_path: Path) -> AsyncIterator[Leader]:
    leader = Leader(tmp_path)
    try:
        await leader.build()
        yield leader
    finally:
        leader.database.close()


async def test_hold_that_changes_nothing_is_no_news(tmp_path: Path):
    async with leader_at(tmp_path) as leader:
        assert await leader.news_of(hold("a"), hold("b")) == ["a", "b"]
        assert await leader.news_of(hold("a"), hold("b"), hold("c")) == ["c"]
        assert await leader.news_of(hold("a"), hold("b")) == []
        assert await leader.news_of(hold("a"), why="other") == ["a"]


def remaining(leader: Leader, connection: Any, *actions: Defer | Evict, why: str = "full") -> list[str]:
    """Return the uids of the actions for which a VM would be read."""
    assert leader.repeated is not None
    texts = {action.uid: HoldText(why, "", is_promised=False) for action in actions if isinstance(action, Defer)}
    return [action.uid for action in leader.repeated.remove_from(connection, actions, texts)]


async def test_known_hold_is_left_out_until_something_differs(tmp_path: Path):
    async with leader_at(tmp_path) as leader:

        async def ask(*actions: Defer | Evict, why: str = "full") -> list[str]:
            return await leader.database.read(lambda connection: remaining(leader, connection, *actions, why=why))

        for _ in range(2):  # the first one writes the reason, the second one changes nothing
            assert await ask(hold("a")) == ["a"]
            await leader.hold({"a": "full", "b": "full"})
        assert await ask(hold("a"), hold("b"), hold("c")) == ["c"]
        assert await ask(hold("a"), why="another reason") == ["a"]
        assert await ask(hold("a"), Evict(guest="a", uid="a", seq=1, host="host-0"), hold("b")) == ["a", "a"]
        await leader.setup.wish("a", desired_state.stop)
        assert await ask(hold("a"), hold("b")) == ["a"]


async def test_nothing_is_remembered_of_a_transaction_that_was_rolled_back(tmp_path: Path):
    async with leader_at(tmp_path) as leader:
        await leader.hold({"a": "full"})
        await leader.hold({"a": "full"}, is_lost=True)
        found = await leader.database.read(lambda connection: remaining(leader, connection, hold("a")))
        assert found == ["a"]


async def live(leader: Leader, seed: int) -> list[Any]:
    """Live a random life; return what was to be seen of it after each move."""
    dice = random.Random(seed)
    seen = []
    for _ in range(60):
        name = dice.choice(NAMES)
        some = dice.sample(NAMES, dice.randrange(1, 4))
        match dice.randrange(8):
            case 0:
                await leader.setup.wish(name, dice.choice([desired_state.stop, desired_state.start]))
            case 1:
                await leader.setup.wish(name, desired_state.resize, VmSpec(cpu=dice.randrange(1, 4), memory="1Gi"))
            case 2:
                await leader.hold({one: dice.choice(["full", "taint"]) for one in some}, is_lost=True)
            case _:
                vms = [await leader.setup.vm(one) for one in some]
                uids = [claim.uid for vm in vms if (claim := vm.run) is not None]
                promised = frozenset(uid for uid in uids if dice.random() < 0.2)
                await leader.hold({uid: dice.choice(["full", "full", "taint"]) for uid in uids}, promised=promised)
        seen.append(await leader.rows())
    return [*seen, await leader.written()]


@pytest.mark.parametrize("seed", range(12))
async def test_rows_and_log_are_as_without_the_memory(tmp_path: Path, seed: int):
    lives = []
    for has_memory in (True, False):
        leader = Leader(tmp_path, has_memory=has_memory)
        try:
            await leader.build()
            lives.append(await live(leader, seed))
        finally:
            leader.database.close()
    with_memory, without = lives
    assert with_memory == without
    assert len({why for rows in without[:-1] for why, *_ in rows}) > 2, "reasons come and go"
