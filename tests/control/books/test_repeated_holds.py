"""Holds that say again what is written: they write nothing, and rows end as if every hold had read its VM."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.control.books import ledger
from hostler.control.books.deciding import Decided, carry_out
from hostler.control.books.follower import Step
from hostler.control.books.repeated_holds import HoldText, RepeatedHolds
from hostler.control.store import lease, open_database
from hostler.control.vms import wishes
from hostler.control.vms.spec import VmSpec
from hostler.errors import HostlerError
from hostler.model import Evict, Hold
from tests.control.books.town import Town

NAMES = ("a", "b", "c")
STEP = Step(now=0, upto=0, limit=0, digest="")


def hold(uid: str) -> Hold:
    return Hold(guest=uid, uid=uid, seq=1, hosts=1)


class Leader:
    """Carries out holds on a database of its own, with the memory of holds or without."""

    def __init__(self, folder: Path, *, has_memory: bool = True) -> None:
        self.database = open_database(f"sqlite:///{folder / str(has_memory)}.db")
        self.town = Town(self.database)
        self.repeated = RepeatedHolds() if has_memory else None
        self.epoch = 0

    async def build(self) -> None:
        await self.town.build(1)
        for name in NAMES:
            await self.town.create(name)
        held = await self.database.write(lambda connection: lease.take(connection, "test", 3600.0))
        assert held is not None
        self.epoch = held.epoch

    async def hold(
        self, whys: dict[str, str], *, promised: frozenset[str] = frozenset(), is_lost: bool = False
    ) -> None:
        decided = Decided(step=STEP, actions=[hold(uid) for uid in whys], versions={}, reasons=whys, promised=promised)

        def work(connection):
            seq = carry_out(connection, self.epoch, decided, 1, self.repeated)
            if is_lost:
                raise HostlerError("rolled back", hint="")
            return seq

        with suppress(HostlerError):
            await self.database.write(work)
            if self.repeated is not None:
                self.repeated.commit()

    async def news_of(self, *actions: Hold | Evict, why: str = "full") -> list[str]:
        """Carry out actions; return the VMs of which watchers are told."""
        assert self.repeated is not None
        decided = Decided(step=STEP, actions=actions, versions={}, reasons=dict.fromkeys(NAMES, why))
        entries = len(await self.town.entries())
        await self.database.write(lambda connection: carry_out(connection, self.epoch, decided, 1, self.repeated))
        self.repeated.commit()
        news = [e for e in (await self.town.entries())[entries:] if e.subject == ledger.NEWS]
        return [vm for entry in news for vm in msgspec.json.decode(entry.body, type=ledger.News).vms]

    async def rows(self) -> list[tuple[Any, ...]]:
        found = await self.database.read(lambda connection: ledger.load_many(connection, NAMES))
        timeless = [msgspec.structs.replace(one.vm, waits_since_ns=0) for one in found.values()]
        return [(vm.why, vm, one.row.version) for vm, one in zip(timeless, found.values(), strict=True)]

    async def written(self) -> list[tuple[str, bytes]]:
        return [(entry.kind, entry.body) for entry in await self.town.entries()]


def on_leader(tmp_path: Path, scenario: Any) -> None:
    async def run() -> None:
        leader = Leader(tmp_path)
        try:
            await leader.build()
            await scenario(leader)
        finally:
            leader.database.close()

    asyncio.run(run())


def test_hold_that_changes_nothing_is_no_news(tmp_path: Path):
    async def scenario(leader: Leader) -> None:
        assert await leader.news_of(hold("a"), hold("b")) == ["a", "b"]
        assert await leader.news_of(hold("a"), hold("b"), hold("c")) == ["c"]
        assert await leader.news_of(hold("a"), hold("b")) == []
        assert await leader.news_of(hold("a"), why="other") == ["a"]

    on_leader(tmp_path, scenario)


def remaining(leader: Leader, connection: Any, *actions: Hold | Evict, why: str = "full") -> list[str]:
    """Return the uids of the actions for which a VM would be read."""
    assert leader.repeated is not None
    texts = {action.uid: HoldText(why, "", is_promised=False) for action in actions if isinstance(action, Hold)}
    return [action.uid for action in leader.repeated.remove_from(connection, actions, texts)]


def test_known_hold_is_left_out_until_something_differs(tmp_path: Path):
    async def scenario(leader: Leader) -> None:
        async def ask(*actions: Hold | Evict, why: str = "full") -> list[str]:
            return await leader.database.read(lambda connection: remaining(leader, connection, *actions, why=why))

        for _ in range(2):  # the first one writes the reason, the second one changes nothing
            assert await ask(hold("a")) == ["a"]
            await leader.hold({"a": "full", "b": "full"})
        assert await ask(hold("a"), hold("b"), hold("c")) == ["c"]
        assert await ask(hold("a"), why="another reason") == ["a"]
        assert await ask(hold("a"), Evict(guest="a", uid="a", seq=1, host="host-0"), hold("b")) == ["a", "a"]
        await leader.town.wish("a", wishes.stop)
        assert await ask(hold("a"), hold("b")) == ["a"]

    on_leader(tmp_path, scenario)


def test_nothing_is_remembered_of_a_transaction_that_was_rolled_back(tmp_path: Path):
    async def scenario(leader: Leader) -> None:
        await leader.hold({"a": "full"})
        await leader.hold({"a": "full"}, is_lost=True)
        found = await leader.database.read(lambda connection: remaining(leader, connection, hold("a")))
        assert found == ["a"]

    on_leader(tmp_path, scenario)


async def live(leader: Leader, seed: int) -> list[Any]:
    """Live a random life; return what was to be seen of it after each move."""
    dice = random.Random(seed)
    seen = []
    for _ in range(60):
        name = dice.choice(NAMES)
        some = dice.sample(NAMES, dice.randrange(1, 4))
        match dice.randrange(8):
            case 0:
                await leader.town.wish(name, dice.choice([wishes.stop, wishes.start]))
            case 1:
                await leader.town.wish(name, wishes.resize, VmSpec(cpu=dice.randrange(1, 4), memory="1Gi"))
            case 2:
                await leader.hold({one: dice.choice(["full", "taint"]) for one in some}, is_lost=True)
            case _:
                vms = [await leader.town.vm(one) for one in some]
                uids = [claim.uid for vm in vms if (claim := vm.run) is not None]
                promised = frozenset(uid for uid in uids if dice.random() < 0.2)
                await leader.hold({uid: dice.choice(["full", "full", "taint"]) for uid in uids}, promised=promised)
        seen.append(await leader.rows())
    return [*seen, await leader.written()]


@pytest.mark.parametrize("seed", range(12))
def test_rows_and_log_are_as_without_the_memory(tmp_path: Path, seed: int):
    async def run() -> list[Any]:
        lives = []
        for has_memory in (True, False):
            leader = Leader(tmp_path, has_memory=has_memory)
            try:
                await leader.build()
                lives.append(await live(leader, seed))
            finally:
                leader.database.close()
        return lives

    with_memory, without = asyncio.run(run())
    assert with_memory == without
    assert len({why for rows in without[:-1] for why, *_ in rows}) > 2, "reasons come and go"
