"""After a restore everybody can see what is waited for: at the host, at its VMs, in events and in the log."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.control.books import ledger
from hostler.control.fleet.hosts import is_unregistered, read_body
from hostler.control.fleet.troubles import trouble_of
from hostler.control.services.showing import show_vm
from hostler.control.store import log
from hostler.control.store.backup import backup
from tests.control.fleet.scene import Scene, is_running, scene
from tests.control.fleet.test_restored import dutifully, hear, restored
from tests.wait import until


async def shown(world: Scene, vm: str):
    return show_vm(await world.database.read(lambda connection: ledger.load(connection, vm)))


async def trouble(world: Scene, name: str) -> str:
    row = await world.row(name)
    return trouble_of(row, read_body(row))


async def told_of(world: Scene, host: str) -> list[str]:
    """Return what events tell of a host."""
    entries = await world.database.read(lambda connection: log.read_after(connection, 0, 100_000))
    notes = [entry for entry in entries if entry.kind == "note" and entry.subject == host]
    return [msgspec.json.decode(entry.body)["text"] for entry in notes]


async def half_restored(world: Scene, tmp_path) -> str:
    """Return a VM on one of two hosts after a restore; the other host, south, does not come back."""
    north = await world.join("north")
    vm = await world.create_running()
    await world.join("south")
    await asyncio.to_thread(backup, world.url, tmp_path / "saved")
    await restored(world, tmp_path / "saved")
    assert north.name == "north"
    return vm


def test_the_log_says_once_how_many_hosts_must_register_and_then_that_all_have(url, tmp_path):
    async def story() -> None:
        async with scene(url) as world:
            vm = await half_restored(world, tmp_path)
            for _ in range(3):
                await world.duties()
            [line] = [one for one in world.leader.told if "restore" in one]
            assert line.startswith("2 hosts must register again since the restore")
            assert "north, south" in line
            hear(world, "north", "south")
            await dutifully(world, vm, is_running)
            [_, last] = [one for one in world.leader.told if "restore" in one]
            assert last == "all hosts have registered since the restore: orders go out again about 1 VM"

    asyncio.run(story())


def test_a_service_that_was_not_restored_says_nothing_of_it(url):
    async def story() -> None:
        async with scene(url) as world:
            await world.join("north")
            vm = await world.create_running()
            await world.duties()
            assert [one for one in world.leader.told if "restore" in one] == []
            assert (await shown(world, vm)).why == ""

    asyncio.run(story())


def test_hosts_and_vms_say_what_is_waited_for_until_all_hosts_are_heard(url, tmp_path):
    async def story() -> None:
        async with scene(url) as world:
            vm = await half_restored(world, tmp_path)
            for name in ("north", "south"):
                assert "not registered since the restore" in await trouble(world, name)
            hear(world, "north")
            await until(lambda: has_registered(world, "north"))
            await world.duties()
            assert await trouble(world, "north") == ""
            assert "not registered since the restore" in await trouble(world, "south")
            waiting = await shown(world, vm)
            assert waiting.host == "north"
            assert "no orders until every host has registered" in waiting.why
            hear(world, "south")
            await dutifully(world, vm, is_running)
            assert (await shown(world, vm)).why == ""
            assert await trouble(world, "south") == ""

    asyncio.run(story())


def test_events_tell_of_a_host_that_came_back_and_of_one_that_did_not(url, tmp_path):
    async def story() -> None:
        async with scene(url) as world:
            await half_restored(world, tmp_path)
            north, south = world.hosts["north"], world.hosts["south"]
            hear(world, "north")
            await until(lambda: has_registered(world, "north"))
            await world.pass_silently(south)
            assert (await world.row("south")).state == "silent"
            assert (await told_of(world, north.id))[-1] == "registered again after the restore"
            assert "has not registered since the restore" in (await told_of(world, south.id))[-1]
            assert "not registered since the restore" in await trouble(world, "south")

    asyncio.run(story())


async def has_registered(world: Scene, name: str) -> bool:
    return not is_unregistered(await world.row(name))
