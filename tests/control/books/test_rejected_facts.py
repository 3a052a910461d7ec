"""What the engine rejects is not lost: the VM that waits says why, and goes on when its owner mends it."""

from __future__ import annotations

import msgspec

from hostler.control.books import ledger
from hostler.control.store import Database
from hostler.control.vms import desired_state
from hostler.control.vms.guests import claim_update
from hostler.control.vms.state import Vm, VmChange, state_of
from tests.control.books.replica_setup import BooksReplica, ReplicaSetup, all_placed, at_rest
from tests.wait import until

GONE = "of-an-older-version"
REASON = f"the scheduler rejects it: there is no policy {GONE!r}"


async def reason_of(setup: ReplicaSetup, name: str) -> str:
    """Wait until a VM says why it waits."""

    async def has_reason() -> bool:
        return bool((await setup.vm(name)).why)

    await until(has_reason)
    return (await setup.vm(name)).why


def renamed(vm: Vm, strategy: str) -> VmChange:
    """Let a VM that waits name another strategy, as its owner would."""
    assert vm.run is not None
    run = msgspec.structs.replace(vm.run, version=vm.run.version + 1)
    vm = msgspec.structs.replace(vm, spec=msgspec.structs.replace(vm.spec, strategy=strategy), run=run)
    return VmChange(vm=vm, facts=(claim_update(vm, run),))


async def test_vm_that_the_engine_rejects_waits_with_that_reason(database: Database) -> None:
    """A VM of an older version names a strategy that there is no more; others are placed, and it is when mended."""

    setup = ReplicaSetup(database)
    await setup.build(1)
    first = await BooksReplica(setup.books("first")).start()
    await setup.create("old", strategy=GONE)
    await setup.create("new")
    await all_placed(setup, "new")
    assert (await reason_of(setup, "old")).startswith(REASON)
    assert state_of(await setup.vm("old")) == "pending"
    await first.kill()
    await setup.run_out()
    second = await BooksReplica(setup.books("second")).start()
    await until(lambda: second.books.is_leader)
    await at_rest(setup, second.books)
    assert (await setup.vm("old")).why.startswith(REASON)
    await setup.wish("old", renamed, "pack")
    await all_placed(setup, "old")
    assert (await setup.vm("old")).why == ""
    await second.stop()


async def test_vm_placed_at_once_or_never_goes_if_the_engine_rejects_it(database: Database) -> None:
    setup = ReplicaSetup(database)
    await setup.build(1)
    replica = await BooksReplica(setup.books("first")).start()
    await setup.create("new")
    old = desired_state.create("old", "default", "old", (await setup.vm("new")).spec, fails_unplaced=True)
    spec = msgspec.structs.replace(old.vm.spec, strategy=GONE)
    change = desired_state.create("old", "default", "old", spec, fails_unplaced=True)
    await database.write(lambda connection: ledger.insert(connection, change, actor="t", now_ns=setup.clock()))
    await until(lambda: _is_gone(setup))
    await replica.stop()


async def _is_gone(setup: ReplicaSetup) -> bool:
    found = await setup.database.read(lambda connection: ledger.load_many(connection, ["old"]))
    return "old" not in found or found["old"].vm.is_gone


async def test_reason_of_a_fact_that_was_replaced_meanwhile_is_not_shown(database: Database) -> None:
    """Both facts wait for the first step: what the engine takes in the end counts."""

    setup = ReplicaSetup(database)
    await setup.build(1)
    await setup.create("old", strategy=GONE)
    await setup.wish("old", renamed, "pack")
    replica = await BooksReplica(setup.books("first")).start()
    await all_placed(setup, "old")
    assert (await setup.vm("old")).why == ""
    await replica.stop()
