"""After a restore everybody can see what is waited for: at the host, at its VMs, in events and in the log."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.control.books import ledger
from hostler.control.fleet.hosts.host_body import is_unregistered, read_body
from hostler.control.fleet.hosts.host_problems import describe_problems
from hostler.control.services.vms.vm_views import show_vm
from hostler.control.store.backup.backup import backup
from hostler.control.store.history import log
from tests.control.fleet.control_plane import ControlPlane, is_running, run_control_plane
from tests.control.fleet.test_restored import dutifully, hear, restored
from tests.wait import until


async def shown(control: ControlPlane, vm: str):
    return show_vm(await control.database.read(lambda connection: ledger.load(connection, vm)))


async def trouble(control: ControlPlane, name: str) -> str:
    row = await control.row(name)
    return describe_problems(row, read_body(row))


async def told_of(control: ControlPlane, host: str) -> list[str]:
    """Return what events tell of a host."""
    entries = await control.database.read(lambda connection: log.read_after(connection, 0, 100_000))
    notes = [entry for entry in entries if entry.kind == "note" and entry.subject == host]
    return [msgspec.json.decode(entry.body)["text"] for entry in notes]


async def half_restored(control: ControlPlane, tmp_path) -> str:
    """Return a VM on one of two hosts after a restore; the other host, south, does not come back."""
    north = await control.join("north")
    vm = await control.create_running()
    await control.join("south")
    await asyncio.to_thread(backup, control.url, tmp_path / "saved")
    await restored(control, tmp_path / "saved")
    assert north.name == "north"
    return vm


async def test_log_counts_hosts_that_must_register_once(url, tmp_path):
    async with run_control_plane(url) as control:
        vm = await half_restored(control, tmp_path)
        for _ in range(3):
            await control.duties()
        [line] = [one for one in control.leader.told if "restore" in one]
        assert line.startswith("2 hosts must register again since the restore")
        assert "north, south" in line
        hear(control, "north", "south")
        await dutifully(control, vm, is_running)
        [_, last] = [one for one in control.leader.told if "restore" in one]
        assert last == "all hosts have registered since the restore: orders go out again about 1 VM"


async def test_a_service_that_was_not_restored_says_nothing_of_it(url):
    async with run_control_plane(url) as control:
        await control.join("north")
        vm = await control.create_running()
        await control.duties()
        assert [one for one in control.leader.told if "restore" in one] == []
        assert (await shown(control, vm)).why == ""


async def test_hosts_and_vms_say_what_is_waited_for_until_all_hosts_are_heard(url, tmp_path):
    async with run_control_plane(url) as control:
        vm = await half_restored(control, tmp_path)
        for name in ("north", "south"):
            assert "not registered since the restore" in await trouble(control, name)
        hear(control, "north")
        await until(lambda: has_registered(control, "north"))
        await control.duties()
        assert await trouble(control, "north") == ""
        assert "not registered since the restore" in await trouble(control, "south")
        waiting = await shown(control, vm)
        assert waiting.host == "north"
        assert "no orders until every host has registered" in waiting.why
        hear(control, "south")
        await dutifully(control, vm, is_running)
        assert (await shown(control, vm)).why == ""
        assert await trouble(control, "south") == ""


async def test_events_tell_of_a_host_that_came_back_and_of_one_that_did_not(url, tmp_path):
    async with run_control_plane(url) as control:
        await half_restored(control, tmp_path)
        north, south = control.hosts["north"], control.hosts["south"]
        hear(control, "north")
        await until(lambda: has_registered(control, "north"))
        await control.pass_silently(south)
        assert (await control.row("south")).state == "silent"
        assert (await told_of(control, north.id))[-1] == "registered again after the restore"
        assert "has not registered since the restore" in (await told_of(control, south.id))[-1]
        assert "not registered since the restore" in await trouble(control, "south")


async def has_registered(control: ControlPlane, name: str) -> bool:
    return not is_unregistered(await control.row(name))
