"""Hosts that come back without what they had: a lost disk is reported, and not silently replaced by an empty one."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.messages import MOST_UNKNOWN, REGISTER_PATH, REPORT_PATH, Register
from hostler.control.store.backup.backup import backup
from hostler.control.store.history import log
from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import Vm, state_of
from hostler.control.vms.status_texts import describe_status
from tests.control.fleet.control_plane import ControlPlane, is_running, is_stopped, run_control_plane, spec
from tests.control.fleet.replicas_and_hosts import HostWithAgent
from tests.control.fleet.test_restored import dutifully, hear, restored
from tests.wait import until

LOCAL = spec(disks=[DiskSpec(size="1Gi")])
MIXED = spec(disks=[DiskSpec(size="1Gi"), DiskSpec(size="1Gi", storage="shared")])
SHARED = spec(disks=[DiskSpec(size="1Gi", storage="shared")])
GONE = "its host came back without it: its disk is gone"


def is_lost(vm: Vm) -> bool:
    return state_of(vm) == "lost"


def creations(host: HostWithAgent) -> list[str]:
    return [vm for verb, vm in host.driver.log if verb == "create"]


async def replace_the_machine(control: ControlPlane, host: HostWithAgent) -> None:
    """Let a host join again by a new token, with nothing of what it had."""
    host.driver.vms.clear()
    host.driver.log.clear()
    host.manifest.records.clear()
    host.credentials = MemoryCredentials()
    host.token = await control.token(host.name)
    host.start()


async def events(control: ControlPlane) -> str:
    entries = await control.database.read(lambda connection: log.read_after(connection, 0, 100_000))
    return "\n".join(entry.body.decode() for entry in entries if entry.kind == "note")


async def test_host_that_returns_empty_lost_local_disks_and_rebuilds_the_rest(either_url):
    async with run_control_plane(either_url) as control:
        north = await control.join("north")
        local, mixed, resting = [await control.create_running(wanted) for wanted in (LOCAL, MIXED, LOCAL)]
        bare, far = [await control.create_running(wanted) for wanted in (spec(), SHARED)]
        await control.wish(resting, desired_state.stop)
        await control.until_vm(resting, is_stopped)
        north.wire.holds_polls = True
        await until(lambda: not north.wire.polling)  # one that was asked before would bring the order
        fresh = await control.create(wanted=LOCAL)
        await control.until_vm(fresh, lambda vm: vm.home is not None)
        await north.stop()
        north.wire.holds_polls = False
        await replace_the_machine(control, north)
        for vm in (local, mixed, resting):
            lost = await control.until_vm(vm, is_lost)
            assert (lost.home, lost.trouble.code, lost.trouble.message) == (None, "disk_lost", GONE)
            assert describe_status(lost) == f"is lost: {GONE}"
        for vm in (bare, far, fresh):
            await control.until_vm(vm, is_running)
        assert sorted(creations(north)) == sorted((bare, far, fresh))
        assert (await events(control)).count(GONE) == 3
        await control.check_agreement()
        await control.wish(local, desired_state.start)
        await control.until_vm(local, is_running)
        await control.wish(mixed, desired_state.delete)
        await control.until_vm(mixed, lambda vm: vm.is_gone)
        await control.check_agreement()


async def test_host_that_kept_only_records_lost_local_disks(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        local, bare = await control.create_running(LOCAL), await control.create_running()
        await north.stop()
        north.driver.vms.clear()
        north.driver.log.clear()
        north.start()
        await control.until_vm(local, is_lost)
        await until(lambda: north.power(bare) == "running")
        await control.until_vm(bare, is_running)
        assert creations(north) == [bare]
        await until(lambda: local not in north.manifest.records)
        await control.check_agreement()


async def test_a_host_that_lost_its_records_alone_adopts_vms_with_their_disks(url):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running(LOCAL)
        await north.stop()
        north.manifest.records.clear()
        north.wire.answers.clear()
        north.start()
        await until(lambda: vm in north.manifest.records)
        await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
        assert is_running(await control.until_vm(vm, is_running))
        assert creations(north) == [vm], "once, and never again"
        assert GONE not in await events(control)


@pytest.mark.parametrize(
    "said",
    [
        {"is_inventory_known": False},
        {"unknown": ("vm0001",)},
        {"unknown": tuple(f"pet-{number}" for number in range(MOST_UNKNOWN))},
    ],
    ids=["its records cannot be read", "it is there without a record", "there is more than it can tell"],
)
async def test_a_vm_that_may_be_there_is_not_taken_for_lost(url, said):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        vm = await control.create_running(LOCAL)
        await north.stop()
        last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
        message = msgspec.json.decode(last.body, type=Register)
        message = msgspec.structs.replace(message, agent="another", sequence=1, vms=(), **said)
        await control.leader.fleet.register(north.credential, message)
        assert is_running(await control.vm(vm))


async def test_a_vm_of_a_backup_that_was_deleted_since_gets_no_empty_disk(url, tmp_path):
    async with run_control_plane(url) as control:
        north = await control.join("north")
        deleted, kept = await control.create_running(LOCAL), await control.create_running(LOCAL)
        await asyncio.to_thread(backup, url, tmp_path / "saved")
        await control.wish(deleted, desired_state.delete)
        await control.until_vm(deleted, lambda vm: vm.is_gone)
        await restored(control, tmp_path / "saved")
        hear(control, "north")
        assert (await dutifully(control, deleted, is_lost)).trouble.message == GONE
        await dutifully(control, kept, is_running)
        assert creations(north).count(deleted) == 1, "before the backup"
