"""Hosts that come back without what they had: whose disk is gone is told so, and gets no empty one in silence."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.credentials import MemoryCredentials
from hostler.agent.limits import MOST_UNKNOWN
from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, Register
from hostler.control.store import log
from hostler.control.store.backup import backup
from hostler.control.vms import wishes
from hostler.control.vms.spec import DiskSpec
from hostler.control.vms.state import Vm, state_of
from hostler.control.vms.telling import standing
from tests.control.fleet.scene import Scene, is_running, is_stopped, scene, spec
from tests.control.fleet.sides import HostSide
from tests.control.fleet.test_restored import dutifully, hear, restored
from tests.wait import until

LOCAL = spec(disks=[DiskSpec(size="1Gi")])
MIXED = spec(disks=[DiskSpec(size="1Gi"), DiskSpec(size="1Gi", storage="shared")])
SHARED = spec(disks=[DiskSpec(size="1Gi", storage="shared")])
GONE = "its host came back without it: its disk is gone"


def is_lost(vm: Vm) -> bool:
    return state_of(vm) == "lost"


def creations(host: HostSide) -> list[str]:
    return [vm for verb, vm in host.driver.log if verb == "create"]


async def replace_the_machine(world: Scene, host: HostSide) -> None:
    """Let a host join again by a new token, with nothing of what it had."""
    host.driver.vms.clear()
    host.driver.log.clear()
    host.manifest.records.clear()
    host.credentials = MemoryCredentials()
    host.token = await world.token(host.name)
    host.start()


async def events(world: Scene) -> str:
    entries = await world.database.read(lambda connection: log.read_after(connection, 0, 100_000))
    return "\n".join(entry.body.decode() for entry in entries if entry.kind == "note")


def test_a_host_that_comes_back_empty_has_lost_local_disks_and_makes_anew_what_had_none(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north = await world.join("north")
            local, mixed, resting = [await world.create_running(wanted) for wanted in (LOCAL, MIXED, LOCAL)]
            bare, far = [await world.create_running(wanted) for wanted in (spec(), SHARED)]
            await world.wish(resting, wishes.stop)
            await world.until_vm(resting, is_stopped)
            north.wire.holds_polls = True
            await until(lambda: not north.wire.polling)  # one that was asked before would bring the order
            fresh = await world.create(wanted=LOCAL)
            await world.until_vm(fresh, lambda vm: vm.home is not None)
            await north.stop()
            north.wire.holds_polls = False
            await replace_the_machine(world, north)
            for vm in (local, mixed, resting):
                lost = await world.until_vm(vm, is_lost)
                assert (lost.home, lost.trouble.code, lost.trouble.message) == (None, "disk_lost", GONE)
                assert standing(lost) == f"is lost: {GONE}"
            for vm in (bare, far, fresh):
                await world.until_vm(vm, is_running)
            assert sorted(creations(north)) == sorted((bare, far, fresh))
            assert (await events(world)).count(GONE) == 3
            await world.check_agreement()
            await world.wish(local, wishes.start)
            await world.until_vm(local, is_running)
            await world.wish(mixed, wishes.delete)
            await world.until_vm(mixed, lambda vm: vm.is_gone)
            await world.check_agreement()

    asyncio.run(story())


def test_a_host_that_kept_its_records_and_nothing_else_has_lost_local_disks(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            local, bare = await world.create_running(LOCAL), await world.create_running()
            await north.stop()
            north.driver.vms.clear()
            north.driver.log.clear()
            north.start()
            await world.until_vm(local, is_lost)
            await until(lambda: north.power(bare) == "running")
            await world.until_vm(bare, is_running)
            assert creations(north) == [bare]
            await until(lambda: local not in north.manifest.records)
            await world.check_agreement()

    asyncio.run(story())


def test_a_host_that_lost_its_records_alone_adopts_vms_with_their_disks(url):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running(LOCAL)
            await north.stop()
            north.manifest.records.clear()
            north.wire.answers.clear()
            north.start()
            await until(lambda: vm in north.manifest.records)
            await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
            assert is_running(await world.until_vm(vm, is_running))
            assert creations(north) == [vm], "once, and never again"
            assert GONE not in await events(world)

    asyncio.run(story())


@pytest.mark.parametrize(
    "said",
    [
        {"is_inventory_known": False},
        {"unknown": ("vm0001",)},
        {"unknown": tuple(f"pet-{number}" for number in range(MOST_UNKNOWN))},
    ],
    ids=["its records cannot be read", "it is there without a record", "there is more than it can tell"],
)
def test_a_vm_that_may_be_there_is_not_taken_for_lost(url, said):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            vm = await world.create_running(LOCAL)
            await north.stop()
            last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
            message = msgspec.json.decode(last.body, type=Register)
            message = msgspec.structs.replace(message, agent="another", sequence=1, vms=(), **said)
            await world.leader.fleet.register(north.credential, message)
            assert is_running(await world.vm(vm))

    asyncio.run(story())


def test_a_vm_of_a_backup_that_was_deleted_since_gets_no_empty_disk(url, tmp_path):
    async def story() -> None:
        async with scene(url) as world:
            north = await world.join("north")
            deleted, kept = await world.create_running(LOCAL), await world.create_running(LOCAL)
            await asyncio.to_thread(backup, url, tmp_path / "saved")
            await world.wish(deleted, wishes.delete)
            await world.until_vm(deleted, lambda vm: vm.is_gone)
            await restored(world, tmp_path / "saved")
            hear(world, "north")
            assert (await dutifully(world, deleted, is_lost)).trouble.message == GONE
            await dutifully(world, kept, is_running)
            assert creations(north).count(deleted) == 1, "before the backup"

    asyncio.run(story())
