"""Replicas that follow one log: one of them decides, all of them know the same, and nothing is decided twice."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.control.books.books import Books
from hostler.control.books.decisions import carry_out
from hostler.control.books.subscriptions import Subscriptions
from hostler.control.books.waiting_vms import summarize_step
from hostler.control.store import Database, open_database
from hostler.control.store.errors import DatabaseUnavailableError, OutcomeUnknownError
from hostler.control.store.history import lease
from hostler.control.store.rows import hosts, operations, vms
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from hostler.model import GuestLeft
from tests.control.books.replica_setup import (
    SETTINGS,
    BooksReplica,
    FaultyDatabase,
    ReplicaSetup,
    SlowDatabase,
    all_placed,
    at_rest,
    deposed,
)
from tests.wait import until

PACKING = msgspec.structs.replace(SETTINGS, strategy="best_fit")


async def test_a_vm_is_placed_and_its_room_is_kept_in_the_same_breath(database):
    setup = ReplicaSetup(database)
    await setup.build(3)
    replica = await BooksReplica(setup.books("a")).start()
    await setup.create("web", cpu=2)
    await all_placed(setup, "web")
    vm = await setup.vm("web")
    assert vm.run is not None
    assert vm.run.is_bound
    assert await setup.kept() == {vm.home.host: 2000}
    await replica.stop()


async def test_unplaceable_vm_waits_with_reason_until_a_host_joins(database):
    setup = ReplicaSetup(database)
    await setup.build(2, cpu=4)
    replica = await BooksReplica(setup.books("a")).start()
    await setup.create("big", cpu=16)

    async def has_reason() -> bool:
        return "insufficient" in (await setup.vm("big")).why

    await until(has_reason)
    assert "2 hosts" in (await setup.vm("big")).why
    await setup.add_host(7, cpu=32)
    await all_placed(setup, "big")
    assert (await setup.vm("big")).why == ""
    await replica.stop()


async def test_waiting_vm_keeps_its_reason_on_resize_to_same_size(database):
    setup = ReplicaSetup(database)
    await setup.build(1, cpu=4)
    replica = await BooksReplica(setup.books("a")).start()
    await setup.create("big", cpu=16)

    async def has_reason() -> bool:
        return bool((await setup.vm("big")).why)

    await until(has_reason)
    why = (await setup.vm("big")).why
    await setup.wish("big", desired_state.resize, VmSpec(cpu=16, memory="1Gi"))
    assert (await setup.vm("big")).why == why
    await setup.wish("big", desired_state.resize, VmSpec(cpu=8, memory="1Gi"))
    await until(has_reason)
    await replica.stop()


async def test_only_one_of_two_replicas_decides_and_both_know_the_same(database):
    setup = ReplicaSetup(database)
    await setup.build(3)
    one, two = await BooksReplica(setup.books("a")).start(), await BooksReplica(setup.books("b")).start()
    names = [f"vm-{number}" for number in range(20)]
    for name in names:
        await setup.create(name)
    await all_placed(setup, *names)
    assert [one.books.is_leader, two.books.is_leader].count(True) == 1
    leader, other = (one.books, two.books) if one.books.is_leader else (two.books, one.books)
    assert (leader.steps > 0, other.steps) == (True, 0)
    await at_rest(setup, leader, other)
    states = [(await replica.books.ask(lambda engine: engine.checkpoint()))[0] for replica in (one, two)]
    assert states[0] == states[1]
    await one.stop()
    await two.stop()


async def test_when_the_leader_dies_another_one_takes_over_and_knows_everything(database):
    setup = ReplicaSetup(database)
    await setup.build(3)
    one = await BooksReplica(setup.books("a")).start()
    await setup.create("first")
    await all_placed(setup, "first")
    two = await BooksReplica(setup.books("b")).start()
    await one.kill()
    await setup.run_out()
    await setup.create("second")
    await all_placed(setup, "second")
    assert two.books.is_leader
    assert two.books.epoch == 2
    await two.stop()


async def test_a_leader_that_stops_gives_the_lease_back_and_leaves_a_checkpoint(database):
    setup = ReplicaSetup(database)
    await setup.build(1)
    one = await BooksReplica(setup.books("a")).start()
    await setup.create("first")
    await all_placed(setup, "first")
    await one.stop()
    two = await BooksReplica(setup.books("b")).start()
    await setup.create("second")
    await all_placed(setup, "second")
    assert two.books.is_leader
    await two.stop()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "error",
    [
        OutcomeUnknownError("nobody knows", hint=""),
        DatabaseUnavailableError("away", hint=""),
        deposed(),
    ],
    ids=["unknown", "unavailable", "deposed"],
)
def test_decision_is_repeated_only_if_it_was_not_written(sqlite_url, when, error):
    async def story(database: Database) -> None:
        setup = ReplicaSetup(database)
        await setup.build(3)
        faulty = FaultyDatabase(database)
        replica = await BooksReplica(setup.books("a", database=faulty)).start()
        await setup.create("first")
        await all_placed(setup, "first")
        rebuilt = replica.books.rebuilds
        faulty.script = [(when, error)] * 3
        names: list[str] = []
        while faulty.script or len(names) < 5:
            names.append(f"vm-{len(names)}")
            await setup.create(names[-1])
            await all_placed(setup, *names)
        assert replica.books.rebuilds >= rebuilt + 3
        bound = [entry.subject for entry in await setup.entries() if b'"guest_bound"' in entry.body]
        assert sorted(bound) == sorted(["first", *names]), "each VM was bound once"
        assert sum((await setup.kept()).values()) == 1000 * (1 + len(names))
        await replica.stop()

    database = open_database(sqlite_url)
    try:
        asyncio.run(story(database))
    finally:
        database.close()


async def test_what_was_deleted_while_it_was_decided_is_not_placed(database):
    setup = ReplicaSetup(database)
    await setup.build(1, cpu=4)
    names = [f"vm-{number}" for number in range(4)]
    for name in names:
        await setup.create(name)
    books: Books = setup.books("a")
    await books.open()
    # While the leader computes, a user deletes.
    held = await _take(setup)
    follower = books._follower
    step, actions = follower.step(setup.clock(), 100)
    decided = summarize_step(follower.engine, step, actions)
    await setup.wish("vm-1", desired_state.delete)
    await setup.wish("vm-2", desired_state.resize, VmSpec(cpu=2, memory="1Gi"))
    seq = await setup.database.write(lambda connection: carry_out(connection, held.epoch, decided, setup.clock()))
    follower.stepped(seq)
    found = await setup.where(*names)
    assert found["vm-0"] == found["vm-3"] == "host-0"
    assert found["vm-1"] == found["vm-2"] == ""
    await books.close()
    fresh = await BooksReplica(setup.books("b")).start()
    await all_placed(setup, "vm-0", "vm-2", "vm-3")
    assert await setup.kept() == {"h0": 4000}
    await fresh.stop()


async def _take(setup: ReplicaSetup):
    held = await setup.database.write(lambda connection: lease.take(connection, "hand", 0.5))
    assert held is not None
    return held


@pytest.mark.parametrize("end", [BooksReplica.stop, BooksReplica.kill])
async def test_policies_that_change_between_two_lives_count_from_the_new_start(database, end):
    setup = ReplicaSetup(database)
    await setup.build(2, cpu=8)
    one = await BooksReplica(setup.books("a")).start()
    for name, cpu in (("small", 1), ("first", 2)):
        await setup.create(name, cpu=cpu)
        await all_placed(setup, name)
    await end(one)
    await setup.run_out()
    two = await BooksReplica(setup.books("b", PACKING)).start()
    await setup.create("second", cpu=1)
    await all_placed(setup, "second")
    found = await setup.where("first", "second")
    assert found["first"] == found["second"], "best_fit fills the host that has less left"
    await two.stop()


async def test_a_replica_with_other_policies_follows_those_of_the_leader(database):
    setup = ReplicaSetup(database)
    await setup.build(2, cpu=8)
    leader = await BooksReplica(setup.books("a")).start()
    await setup.create("first", cpu=2)
    await all_placed(setup, "first")
    other = await BooksReplica(setup.books("b", PACKING)).start()
    await setup.create("second", cpu=1)
    await all_placed(setup, "second")
    found = await setup.where("first", "second")
    assert found["first"] != found["second"], "least_loaded takes the host that is empty"
    await until(lambda: other.books.seq == leader.books.seq)
    assert other.books.trouble == ""
    await other.stop()
    await leader.stop()


async def test_news_of_a_vm_wakes_only_those_who_wait_for_it(database):
    setup = ReplicaSetup(database)
    await setup.build(1)
    replica = await BooksReplica(setup.books("a")).start()
    books = replica.books
    with books.watch("vm", "web") as mine, books.watch("vm", "other") as theirs, books.watch("*") as anything:
        await setup.create("web")
        assert await mine.wait(30)
        assert await anything.wait(30)
        assert not await theirs.wait(0.05)
    with books.watch("host", "h0") as host:
        await setup.create("next")
        assert await host.wait(30)
    await replica.stop()


async def test_a_twin_for_questions_can_be_spoilt_without_harm(database):
    setup = ReplicaSetup(database)
    await setup.build(1, cpu=4)
    replica = await BooksReplica(setup.books("a")).start()
    await setup.create("web")
    await all_placed(setup, "web")

    def spoil(engine) -> int:
        for uid in list(engine.guests()):
            engine.apply(GuestLeft(uid=uid))
        return len(list(engine.guests()))

    assert (await replica.books.ask(spoil))[0] == 0
    assert (await replica.books.ask(lambda engine: len(list(engine.guests()))))[0] == 1
    await replica.stop()


def test_leader_stopped_during_a_step_saves_nothing_of_it(sqlite_url):
    async def story(database: Database) -> None:
        setup = ReplicaSetup(database)
        await setup.build(2)
        slow = SlowDatabase(database)
        one = await BooksReplica(setup.books("a", database=slow)).start()
        await setup.create("first")
        await slow.reached.wait()  # the engine has decided, and nothing of it is written
        await one.stop()
        two = await BooksReplica(setup.books("b")).start()
        await all_placed(setup, "first")
        await two.stop()

    database = open_database(sqlite_url)
    try:
        asyncio.run(story(database))
    finally:
        database.close()


async def test_at_the_end_nobody_waits_any_more():
    watchers = Subscriptions()
    with watchers.subscribe("vm", "web") as one, watchers.subscribe("*") as other:
        waiting = asyncio.ensure_future(one.wait(3600))
        await asyncio.sleep(0)
        watchers.close()
        assert not await waiting
        assert not await other.wait(3600)


async def test_a_list_by_label_follows_a_vm_whose_labels_change(database):
    setup = ReplicaSetup(database)
    await setup.build(1)
    await setup.create("web", labels={"tier": "old"})
    await setup.wish("web", desired_state.resize, VmSpec(cpu=1, memory="1Gi", labels={"tier": "new"}))

    def found(value: str) -> list[str]:
        wanted = vms.VmFilter(labels=(("tier", value),))
        return [row.name for row in database.read_now(lambda c: vms.list_page(c, wanted)).items]

    assert found("old") == []
    assert found("new") == ["web"]


async def test_a_vm_is_not_given_to_a_host_that_fell_silent_since_it_was_chosen(database):
    setup = ReplicaSetup(database)
    await setup.build(1)
    await setup.create("web")
    books: Books = setup.books("a")
    await books.open()
    held = await _take(setup)
    follower = books._follower
    step, actions = follower.step(setup.clock(), 100)
    decided = summarize_step(follower.engine, step, actions)

    def fall_silent(connection) -> None:
        row = hosts.get(connection, "h0")
        hosts.save(connection, msgspec.structs.replace(row, state="silent"))

    await setup.database.write(fall_silent)
    await setup.database.write(lambda connection: carry_out(connection, held.epoch, decided, setup.clock()))
    assert await setup.where("web") == {"web": ""}
    await books.close()


async def test_a_move_that_is_given_up_ends_its_operation_as_failed(database):
    setup = ReplicaSetup(database)
    await setup.build(1)
    replica = await BooksReplica(setup.books("a")).start()
    await setup.create("web")
    await all_placed(setup, "web")
    vm = await setup.vm("web")
    row = operations.OperationRow(id="op", kind="vm.migrate", subject="web", generation=vm.generation + 1)
    await setup.database.write(lambda connection: operations.add_many(connection, [row]))
    await setup.wish("web", desired_state.migrate)

    async def is_over() -> bool:
        return (await setup.database.read(lambda c: operations.get(c, "op"))).finished_ns is not None

    await until(is_over)
    found = await setup.database.read(lambda connection: operations.get(connection, "op"))
    assert found.state == "failed"
    assert b"not moved" in found.body
    await replica.stop()
