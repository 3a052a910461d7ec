"""Replicas that follow one log: one of them decides, all of them know the same, and nothing is decided twice."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.control.books.books import Books
from hostler.control.books.deciding import carry_out
from hostler.control.books.reading import remembered
from hostler.control.books.watching import Watchers
from hostler.control.store import Database, hosts, lease, open_database, operations, vms
from hostler.control.store.errors import DatabaseUnavailableError, OutcomeUnknownError
from hostler.control.vms import wishes
from hostler.control.vms.spec import VmSpec
from hostler.model import GuestLeft
from tests.control.books.town import SETTINGS, Faulty, Replica, Slow, Town, all_placed, at_rest, deposed
from tests.wait import until

PACKING = msgspec.structs.replace(SETTINGS, strategy="best_fit")


def test_a_vm_is_placed_and_its_room_is_kept_in_the_same_breath(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(3)
        replica = await Replica(town.books("a")).start()
        await town.create("web", cpu=2)
        await all_placed(town, "web")
        vm = await town.vm("web")
        assert vm.run is not None
        assert vm.run.is_bound
        assert await town.kept() == {vm.home.host: 2000}
        await replica.stop()

    asyncio.run(scene())


def test_a_vm_that_fits_nowhere_waits_with_a_reason_and_is_placed_when_a_host_comes(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(2, cpu=4)
        replica = await Replica(town.books("a")).start()
        await town.create("big", cpu=16)

        async def has_reason() -> bool:
            return "insufficient" in (await town.vm("big")).why

        await until(has_reason)
        assert "2 hosts" in (await town.vm("big")).why
        await town.add_host(7, cpu=32)
        await all_placed(town, "big")
        assert (await town.vm("big")).why == ""
        await replica.stop()

    asyncio.run(scene())


def test_a_vm_that_waits_keeps_its_reason_when_it_is_resized_to_the_size_that_it_has(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(1, cpu=4)
        replica = await Replica(town.books("a")).start()
        await town.create("big", cpu=16)

        async def has_reason() -> bool:
            return bool((await town.vm("big")).why)

        await until(has_reason)
        why = (await town.vm("big")).why
        await town.wish("big", wishes.resize, VmSpec(cpu=16, memory="1Gi"))
        assert (await town.vm("big")).why == why
        await town.wish("big", wishes.resize, VmSpec(cpu=8, memory="1Gi"))
        await until(has_reason)
        await replica.stop()

    asyncio.run(scene())


def test_only_one_of_two_replicas_decides_and_both_know_the_same(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(3)
        one, two = await Replica(town.books("a")).start(), await Replica(town.books("b")).start()
        names = [f"vm-{number}" for number in range(20)]
        for name in names:
            await town.create(name)
        await all_placed(town, *names)
        assert [one.books.is_leader, two.books.is_leader].count(True) == 1
        leader, other = (one.books, two.books) if one.books.is_leader else (two.books, one.books)
        assert (leader.steps > 0, other.steps) == (True, 0)
        await at_rest(town, leader, other)
        states = [(await replica.books.ask(lambda engine: engine.checkpoint()))[0] for replica in (one, two)]
        assert states[0] == states[1]
        await one.stop()
        await two.stop()

    asyncio.run(scene())


def test_when_the_leader_dies_another_one_takes_over_and_knows_everything(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(3)
        one = await Replica(town.books("a")).start()
        await town.create("first")
        await all_placed(town, "first")
        two = await Replica(town.books("b")).start()
        await one.kill()
        await town.run_out()
        await town.create("second")
        await all_placed(town, "second")
        assert two.books.is_leader
        assert two.books.epoch == 2
        await two.stop()

    asyncio.run(scene())


def test_a_leader_that_stops_gives_the_lease_back_and_leaves_a_checkpoint(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        one = await Replica(town.books("a")).start()
        await town.create("first")
        await all_placed(town, "first")
        await one.stop()
        two = await Replica(town.books("b")).start()
        await town.create("second")
        await all_placed(town, "second")
        assert two.books.is_leader
        await two.stop()

    asyncio.run(scene())


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
def test_a_decision_whose_writing_failed_is_made_again_only_if_it_was_not_written(sqlite_url, when, error):
    async def scene(database: Database) -> None:
        town = Town(database)
        await town.build(3)
        faulty = Faulty(database)
        replica = await Replica(town.books("a", database=faulty)).start()
        await town.create("first")
        await all_placed(town, "first")
        rebuilt = replica.books.rebuilds
        faulty.script = [(when, error)] * 3
        names: list[str] = []
        while faulty.script or len(names) < 5:
            names.append(f"vm-{len(names)}")
            await town.create(names[-1])
            await all_placed(town, *names)
        assert replica.books.rebuilds >= rebuilt + 3
        bound = [entry.subject for entry in await town.entries() if b'"guest_bound"' in entry.body]
        assert sorted(bound) == sorted(["first", *names]), "each VM was bound once"
        assert sum((await town.kept()).values()) == 1000 * (1 + len(names))
        await replica.stop()

    database = open_database(sqlite_url)
    try:
        asyncio.run(scene(database))
    finally:
        database.close()


def test_what_was_deleted_while_it_was_decided_is_not_placed(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(1, cpu=4)
        names = [f"vm-{number}" for number in range(4)]
        for name in names:
            await town.create(name)
        books: Books = town.books("a")
        await books.open()
        # The leader thinks; meanwhile somebody deletes.
        held = await _take(town)
        follower = books._follower
        step, actions = follower.step(town.clock(), 100)
        decided = remembered(follower.engine, step, actions)
        await town.wish("vm-1", wishes.delete)
        await town.wish("vm-2", wishes.resize, VmSpec(cpu=2, memory="1Gi"))
        seq = await town.database.write(lambda connection: carry_out(connection, held.epoch, decided, town.clock()))
        follower.stepped(seq)
        found = await town.where(*names)
        assert found["vm-0"] == found["vm-3"] == "host-0"
        assert found["vm-1"] == found["vm-2"] == ""
        await books.close()
        fresh = await Replica(town.books("b")).start()
        await all_placed(town, "vm-0", "vm-2", "vm-3")
        assert await town.kept() == {"h0": 4000}
        await fresh.stop()

    asyncio.run(scene())


async def _take(town: Town):
    held = await town.database.write(lambda connection: lease.take(connection, "hand", 0.5))
    assert held is not None
    return held


@pytest.mark.parametrize("end", [Replica.stop, Replica.kill])
def test_policies_that_change_between_two_lives_count_from_the_new_start(database, end):
    async def scene() -> None:
        town = Town(database)
        await town.build(2, cpu=8)
        one = await Replica(town.books("a")).start()
        for name, cpu in (("small", 1), ("first", 2)):
            await town.create(name, cpu=cpu)
            await all_placed(town, name)
        await end(one)
        await town.run_out()
        two = await Replica(town.books("b", PACKING)).start()
        await town.create("second", cpu=1)
        await all_placed(town, "second")
        found = await town.where("first", "second")
        assert found["first"] == found["second"], "best_fit fills the host that has less left"
        await two.stop()

    asyncio.run(scene())


def test_a_replica_with_other_policies_follows_those_of_the_leader(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(2, cpu=8)
        leader = await Replica(town.books("a")).start()
        await town.create("first", cpu=2)
        await all_placed(town, "first")
        other = await Replica(town.books("b", PACKING)).start()
        await town.create("second", cpu=1)
        await all_placed(town, "second")
        found = await town.where("first", "second")
        assert found["first"] != found["second"], "least_loaded takes the host that is empty"
        await until(lambda: other.books.seq == leader.books.seq)
        assert other.books.trouble == ""
        await other.stop()
        await leader.stop()

    asyncio.run(scene())


def test_news_of_a_vm_wakes_only_those_who_wait_for_it(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        replica = await Replica(town.books("a")).start()
        books = replica.books
        with books.watch("vm", "web") as mine, books.watch("vm", "other") as theirs, books.watch("*") as anything:
            await town.create("web")
            assert await mine.wait(30)
            assert await anything.wait(30)
            assert not await theirs.wait(0.05)
        with books.watch("host", "h0") as host:
            await town.create("next")
            assert await host.wait(30)
        await replica.stop()

    asyncio.run(scene())


def test_a_twin_for_questions_can_be_spoilt_without_harm(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(1, cpu=4)
        replica = await Replica(town.books("a")).start()
        await town.create("web")
        await all_placed(town, "web")

        def spoil(engine) -> int:
            for uid in list(engine.guests()):
                engine.apply(GuestLeft(uid=uid))
            return len(list(engine.guests()))

        assert (await replica.books.ask(spoil))[0] == 0
        assert (await replica.books.ask(lambda engine: len(list(engine.guests()))))[0] == 1
        await replica.stop()

    asyncio.run(scene())


def test_a_leader_that_is_stopped_in_the_middle_of_a_step_saves_nothing_of_it(sqlite_url):
    async def scene(database: Database) -> None:
        town = Town(database)
        await town.build(2)
        slow = Slow(database)
        one = await Replica(town.books("a", database=slow)).start()
        await town.create("first")
        await slow.reached.wait()  # the engine has decided, and nothing of it is written
        await one.stop()
        two = await Replica(town.books("b")).start()
        await all_placed(town, "first")
        await two.stop()

    database = open_database(sqlite_url)
    try:
        asyncio.run(scene(database))
    finally:
        database.close()


def test_at_the_end_nobody_waits_any_more():
    async def scene() -> None:
        watchers = Watchers()
        with watchers.subscribe("vm", "web") as one, watchers.subscribe("*") as other:
            waiting = asyncio.ensure_future(one.wait(3600))
            await asyncio.sleep(0)
            watchers.close()
            assert not await waiting
            assert not await other.wait(3600)

    asyncio.run(scene())


def test_a_list_by_label_follows_a_vm_whose_labels_change(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        await town.create("web", labels={"tier": "old"})
        await town.wish("web", wishes.resize, VmSpec(cpu=1, memory="1Gi", labels={"tier": "new"}))

        def found(value: str) -> list[str]:
            wanted = vms.VmFilter(labels=(("tier", value),))
            return [row.name for row in database.read_now(lambda c: vms.list_page(c, wanted)).items]

        assert found("old") == []
        assert found("new") == ["web"]

    asyncio.run(scene())


def test_a_vm_is_not_given_to_a_host_that_fell_silent_since_it_was_chosen(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        await town.create("web")
        books: Books = town.books("a")
        await books.open()
        held = await _take(town)
        follower = books._follower
        step, actions = follower.step(town.clock(), 100)
        decided = remembered(follower.engine, step, actions)

        def fall_silent(connection) -> None:
            row = hosts.get(connection, "h0")
            hosts.save(connection, msgspec.structs.replace(row, state="silent"))

        await town.database.write(fall_silent)
        await town.database.write(lambda connection: carry_out(connection, held.epoch, decided, town.clock()))
        assert await town.where("web") == {"web": ""}
        await books.close()

    asyncio.run(scene())


def test_a_move_that_is_given_up_ends_its_operation_as_failed(database):
    async def scene() -> None:
        town = Town(database)
        await town.build(1)
        replica = await Replica(town.books("a")).start()
        await town.create("web")
        await all_placed(town, "web")
        vm = await town.vm("web")
        row = operations.OperationRow(id="op", kind="vm.migrate", subject="web", generation=vm.generation + 1)
        await town.database.write(lambda connection: operations.add_many(connection, [row]))
        await town.wish("web", wishes.migrate)

        async def is_over() -> bool:
            return (await town.database.read(lambda c: operations.get(c, "op"))).finished_ns is not None

        await until(is_over)
        found = await town.database.read(lambda connection: operations.get(connection, "op"))
        assert found.state == "failed"
        assert b"not moved" in found.body
        await replica.stop()

    asyncio.run(scene())
