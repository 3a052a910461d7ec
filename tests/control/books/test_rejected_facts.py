"""What the engine rejects is not lost: the VM that waits says why, and goes on when its owner mends it."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.control.books import ledger
from hostler.control.store import Database
from hostler.control.vms import wishes
from hostler.control.vms.guests import regrown
from hostler.control.vms.state import Change, Vm, state_of
from tests.control.books.town import Replica, Town, all_placed, at_rest
from tests.wait import until

GONE = "of-an-older-version"
REASON = f"the scheduler rejects it: there is no policy {GONE!r}"


async def reason_of(town: Town, name: str) -> str:
    """Wait until a VM says why it waits."""

    async def has_reason() -> bool:
        return bool((await town.vm(name)).why)

    await until(has_reason)
    return (await town.vm(name)).why


def renamed(vm: Vm, strategy: str) -> Change:
    """Let a VM that waits name another strategy, as its owner would."""
    assert vm.run is not None
    run = msgspec.structs.replace(vm.run, version=vm.run.version + 1)
    vm = msgspec.structs.replace(vm, spec=msgspec.structs.replace(vm.spec, strategy=strategy), run=run)
    return Change(vm=vm, facts=(regrown(vm, run),))


def test_vm_that_the_engine_rejects_waits_with_that_reason(database: Database) -> None:
    """A VM of an older version names a strategy that there is no more; others are placed, and it is when mended."""

    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        first = await Replica(town.books("first")).start()
        await town.create("old", strategy=GONE)
        await town.create("new")
        await all_placed(town, "new")
        assert (await reason_of(town, "old")).startswith(REASON)
        assert state_of(await town.vm("old")) == "pending"
        await first.kill()
        await town.run_out()
        second = await Replica(town.books("second")).start()
        await until(lambda: second.books.is_leader)
        await at_rest(town, second.books)
        assert (await town.vm("old")).why.startswith(REASON)
        await town.wish("old", renamed, "pack")
        await all_placed(town, "old")
        assert (await town.vm("old")).why == ""
        await second.stop()

    asyncio.run(scene())


def test_vm_placed_at_once_or_never_goes_if_the_engine_rejects_it(database: Database) -> None:
    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        replica = await Replica(town.books("first")).start()
        await town.create("new")
        old = wishes.create("old", "default", "old", (await town.vm("new")).spec, fails_unplaced=True)
        spec = msgspec.structs.replace(old.vm.spec, strategy=GONE)
        change = wishes.create("old", "default", "old", spec, fails_unplaced=True)
        await database.write(lambda connection: ledger.insert(connection, change, actor="t", now_ns=town.clock()))
        await until(lambda: _is_gone(town))
        await replica.stop()

    asyncio.run(scene())


async def _is_gone(town: Town) -> bool:
    found = await town.database.read(lambda connection: ledger.load_many(connection, ["old"]))
    return "old" not in found or found["old"].vm.is_gone


def test_reason_of_a_fact_that_was_replaced_meanwhile_is_not_shown(database: Database) -> None:
    """Both facts wait for the first step: what the engine takes in the end counts."""

    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        await town.create("old", strategy=GONE)
        await town.wish("old", renamed, "pack")
        replica = await Replica(town.books("first")).start()
        await all_placed(town, "old")
        assert (await town.vm("old")).why == ""
        await replica.stop()

    asyncio.run(scene())
