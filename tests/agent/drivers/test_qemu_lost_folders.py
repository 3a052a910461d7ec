"""Folders of VMs that disappear: one by one, or all of them with their file system."""

from __future__ import annotations

import asyncio
import shutil

import msgspec
import pytest

from hostler.agent.driver import BlockedError, DiskMissingError, StorageUnavailableError
from hostler.agent.drivers.qemu.processes import scan
from hostler.agent.messages import Disk
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_setup import MIB, in_qemu_setup, on_hosts
from tests.async_tests import run_with


async def stray_of(driver, vm="a"):
    (found,) = [one for one in await driver.find() if one.vm == vm]
    assert found.is_ours
    assert found.is_stray
    return found


def processes(setup) -> int:
    return sum(1 for one in scan() if one.is_qemu and one.pid_file.startswith(f"{setup.folder}/"))


@run_with(on_hosts)
async def test_vm_whose_folder_is_removed_is_found_and_not_made_twice(setup, driver, /):
    """Its QEMU runs on with files that have no name any more: a second one would be another VM with its address."""

    order = setup.order("a")
    await driver.create(order)
    await driver.start("a")
    shutil.rmtree(setup.folder / "one" / "vms" / "a")
    found = await stray_of(driver)
    assert (found.power, found.cpu_count, found.memory_bytes) == ("running", 1, 96 * MIB)
    with pytest.raises(BlockedError, match="its record is gone"):
        await driver.create(order)
    with pytest.raises(BlockedError, match="its record is gone"):
        await driver.await_landing(order)
    assert processes(setup) == 1
    await driver.stop("a", grace_s=0)
    assert processes(setup) == 0
    await driver.create(order)
    assert await power_of(driver, "a") == "stopped"


@run_with(in_qemu_setup)
async def test_running_vm_without_record_keeps_its_folder_when_the_agent_starts(setup, /):
    """A folder without a record is usually half made and cleared away; not one that a QEMU works in."""

    async with opened(setup) as driver:
        await driver.create(msgspec.structs.replace(setup.order("a"), disks=(Disk(size_bytes=MIB),)))
        await driver.start("a")
    (setup.folder / "one" / "vms" / "a" / "vm.json").unlink()
    async with opened(setup) as driver:
        await stray_of(driver)
        assert (setup.folder / "one" / "vms" / "a" / "disks" / "disk0.qcow2").exists()
        await driver.delete("a")
        assert await power_of(driver, "a") == "absent"
    assert processes(setup) == 0


@run_with(on_hosts)
async def test_local_disk_of_a_removed_folder_is_missing(setup, driver, /):
    order = msgspec.structs.replace(setup.order("a"), disks=(Disk(size_bytes=MIB),))
    await driver.create(order)
    shutil.rmtree(setup.folder / "one" / "vms" / "a")
    with pytest.raises(DiskMissingError):
        await driver.create(msgspec.structs.replace(order, has_disks=True))
    assert not (setup.folder / "one" / "vms" / "a").exists()


@run_with(on_hosts)
async def test_local_disk_that_is_removed_alone_makes_its_vm_absent(setup, driver, /):
    """The folder and the record are there; no empty disk takes the place of the one that is not."""

    order = msgspec.structs.replace(setup.order("a"), disks=(Disk(size_bytes=MIB), Disk(size_bytes=MIB)))
    disk = setup.folder / "one" / "vms" / "a" / "disks" / "disk1.qcow2"
    await driver.create(order)
    await driver.start("a")
    disk.rename(setup.folder / "away")
    assert await power_of(driver, "a") == "running"
    await driver.stop("a", grace_s=0)
    assert await power_of(driver, "a") == "absent"
    with pytest.raises(DiskMissingError, match=r"disk 1 of a .*disk1\.qcow2"):
        await driver.create(msgspec.structs.replace(order, has_disks=True))
    assert not disk.exists()
    (setup.folder / "away").rename(disk)
    await driver.start("a")
    assert await power_of(driver, "a") == "running"


@run_with(on_hosts)
async def test_vm_with_a_missing_disk_is_recreated_by_a_newer_booking(setup, driver, /):
    order = msgspec.structs.replace(setup.order("a"), disks=(Disk(size_bytes=MIB),))
    await driver.create(order)
    (setup.folder / "one" / "vms" / "a" / "disks" / "disk0.qcow2").unlink()
    await driver.create(msgspec.structs.replace(order, generation=2))
    await driver.start("a")
    assert await power_of(driver, "a") == "running"
    await driver.delete("a")
    assert not (setup.folder / "one" / "vms" / "a").exists()


@run_with(in_qemu_setup)
async def test_unmounted_folder_of_vms_is_unavailable_and_left_alone(setup, /):
    """What runs is still seen; nothing is made on the mount point; mounted again, all is as before."""

    root = setup.folder / "one"
    async with opened(setup) as driver:
        for vm in ("a", "b"):
            await driver.create(setup.order(vm))
        await driver.start("a")
        root.rename(setup.folder / "away")
        root.mkdir()
        assert list(await driver.unavailable()) == [""]
        await stray_of(driver)
    async with opened(setup) as driver:
        assert list(await driver.unavailable()) == [""]
        assert [one.vm for one in await driver.find() if one.is_ours] == ["a"]
        assert (await driver.size()).disk_bytes == 0
        for verb in (driver.create(setup.order("c")), driver.delete("b"), driver.await_landing(setup.order("d"))):
            with pytest.raises(StorageUnavailableError):
                await verb
        assert not list(root.iterdir())
        root.rmdir()
        (setup.folder / "away").rename(root)
        assert await driver.unavailable() == {}
        assert {one.vm: one.power for one in await driver.find() if one.is_ours} == {"a": "running", "b": "stopped"}
        assert (await driver.size()).disk_bytes > 0
        await driver.start("a")
        assert processes(setup) == 1


@run_with(on_hosts)
async def test_unmounted_shared_storage_gets_no_disk(setup, driver, /):
    setup.shared.rename(setup.folder / "away")
    setup.shared.mkdir(mode=0o777)
    assert list(await driver.unavailable()) == ["nfs"]
    with pytest.raises(StorageUnavailableError):
        await driver.create(msgspec.structs.replace(setup.order("a"), disks=(setup.shared_disk(),)))
    assert not list(setup.shared.iterdir())
    await driver.create(setup.order("b"))
    assert await power_of(driver, "b") == "stopped"


@run_with(in_qemu_setup)
async def test_removed_folder_is_reported_to_the_watchdog_too(setup, /):
    """The watchdog finds and stops what runs here by the same driver, folder or not."""

    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
        await driver.start("a")
    (setup.folder / "one").rename(setup.folder / "away")
    async with opened(setup) as watchdog:
        await stray_of(watchdog)
        await watchdog.stop("a", grace_s=0)
    async with asyncio.timeout(60):
        while processes(setup):
            await asyncio.sleep(0.05)
