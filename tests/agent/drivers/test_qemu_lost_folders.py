"""Folders of VMs that disappear: one by one, or all of them with their file system."""

from __future__ import annotations

import asyncio
import shutil

import msgspec
import pytest

from hostler.agent.drivers.driver import BlockedError, DiskMissingError, StorageUnavailableError
from hostler.agent.drivers.qemu_processes import scan
from hostler.agent.messages import Disk
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_lab import MIB, in_a_lab, on_hosts


async def stray_of(driver, vm="a"):
    (found,) = [one for one in await driver.find() if one.vm == vm]
    assert found.is_ours
    assert found.is_stray
    return found


def processes(lab) -> int:
    return sum(1 for one in scan() if one.is_qemu and one.pid_file.startswith(f"{lab.folder}/"))


def test_vm_whose_folder_is_removed_is_found_and_not_made_twice():
    """Its QEMU runs on with files that have no name any more: a second one would be another VM with its address."""

    async def scenario(lab, driver):
        order = lab.order("a")
        await driver.create(order)
        await driver.start("a")
        shutil.rmtree(lab.folder / "one" / "vms" / "a")
        found = await stray_of(driver)
        assert (found.power, found.cpu_count, found.memory_bytes) == ("running", 1, 96 * MIB)
        with pytest.raises(BlockedError, match="its record is gone"):
            await driver.create(order)
        with pytest.raises(BlockedError, match="its record is gone"):
            await driver.await_landing(order)
        assert processes(lab) == 1
        await driver.stop("a", grace_s=0)
        assert processes(lab) == 0
        await driver.create(order)
        assert await power_of(driver, "a") == "stopped"

    on_hosts(scenario)


def test_running_vm_without_record_keeps_its_folder_when_the_agent_starts():
    """A folder without a record is usually half made and cleared away; not one that a QEMU works in."""

    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(msgspec.structs.replace(lab.order("a"), disks=(Disk(size_bytes=MIB),)))
            await driver.start("a")
        (lab.folder / "one" / "vms" / "a" / "vm.json").unlink()
        async with opened(lab) as driver:
            await stray_of(driver)
            assert (lab.folder / "one" / "vms" / "a" / "disks" / "disk0.qcow2").exists()
            await driver.delete("a")
            assert await power_of(driver, "a") == "absent"
        assert processes(lab) == 0

    in_a_lab(scenario)


def test_local_disk_of_a_removed_folder_is_missing():
    async def scenario(lab, driver):
        order = msgspec.structs.replace(lab.order("a"), disks=(Disk(size_bytes=MIB),))
        await driver.create(order)
        shutil.rmtree(lab.folder / "one" / "vms" / "a")
        with pytest.raises(DiskMissingError):
            await driver.create(msgspec.structs.replace(order, has_disks=True))
        assert not (lab.folder / "one" / "vms" / "a").exists()

    on_hosts(scenario)


def test_local_disk_that_is_removed_alone_makes_its_vm_absent():
    """The folder and the record are there; no empty disk takes the place of the one that is not."""

    async def scenario(lab, driver):
        order = msgspec.structs.replace(lab.order("a"), disks=(Disk(size_bytes=MIB), Disk(size_bytes=MIB)))
        disk = lab.folder / "one" / "vms" / "a" / "disks" / "disk1.qcow2"
        await driver.create(order)
        await driver.start("a")
        disk.rename(lab.folder / "away")
        assert await power_of(driver, "a") == "running"
        await driver.stop("a", grace_s=0)
        assert await power_of(driver, "a") == "absent"
        with pytest.raises(DiskMissingError, match=r"disk 1 of a .*disk1\.qcow2"):
            await driver.create(msgspec.structs.replace(order, has_disks=True))
        assert not disk.exists()
        (lab.folder / "away").rename(disk)
        await driver.start("a")
        assert await power_of(driver, "a") == "running"

    on_hosts(scenario)


def test_vm_with_a_missing_disk_is_made_anew_by_a_newer_booking():
    async def scenario(lab, driver):
        order = msgspec.structs.replace(lab.order("a"), disks=(Disk(size_bytes=MIB),))
        await driver.create(order)
        (lab.folder / "one" / "vms" / "a" / "disks" / "disk0.qcow2").unlink()
        await driver.create(msgspec.structs.replace(order, generation=2))
        await driver.start("a")
        assert await power_of(driver, "a") == "running"
        await driver.delete("a")
        assert not (lab.folder / "one" / "vms" / "a").exists()

    on_hosts(scenario)


def test_unmounted_folder_of_vms_is_unavailable_and_left_alone():
    """What runs is still seen; nothing is made on the mount point; mounted again, all is as before."""

    async def scenario(lab):
        root = lab.folder / "one"
        async with opened(lab) as driver:
            for vm in ("a", "b"):
                await driver.create(lab.order(vm))
            await driver.start("a")
            root.rename(lab.folder / "away")
            root.mkdir()
            assert list(await driver.unavailable()) == [""]
            await stray_of(driver)
        async with opened(lab) as driver:
            assert list(await driver.unavailable()) == [""]
            assert [one.vm for one in await driver.find() if one.is_ours] == ["a"]
            assert (await driver.size()).disk_bytes == 0
            for verb in (driver.create(lab.order("c")), driver.delete("b"), driver.await_landing(lab.order("d"))):
                with pytest.raises(StorageUnavailableError):
                    await verb
            assert not list(root.iterdir())
            root.rmdir()
            (lab.folder / "away").rename(root)
            assert await driver.unavailable() == {}
            assert {one.vm: one.power for one in await driver.find() if one.is_ours} == {"a": "running", "b": "stopped"}
            assert (await driver.size()).disk_bytes > 0
            await driver.start("a")
            assert processes(lab) == 1

    in_a_lab(scenario)


def test_unmounted_shared_storage_gets_no_disk():
    async def scenario(lab, driver):
        lab.shared.rename(lab.folder / "away")
        lab.shared.mkdir(mode=0o777)
        assert list(await driver.unavailable()) == ["nfs"]
        with pytest.raises(StorageUnavailableError):
            await driver.create(msgspec.structs.replace(lab.order("a"), disks=(lab.shared_disk(),)))
        assert not list(lab.shared.iterdir())
        await driver.create(lab.order("b"))
        assert await power_of(driver, "b") == "stopped"

    on_hosts(scenario)


def test_removed_folder_is_reported_to_the_watchdog_too():
    """The watchdog finds and stops what runs here by the same driver, folder or not."""

    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(lab.order("a"))
            await driver.start("a")
        (lab.folder / "one").rename(lab.folder / "away")
        async with opened(lab) as watchdog:
            await stray_of(watchdog)
            await watchdog.stop("a", grace_s=0)
        async with asyncio.timeout(60):
            while processes(lab):
                await asyncio.sleep(0.05)

    in_a_lab(scenario)
