"""Storage pools without their storage, volumes that disappear, and volumes that root of another host planted.

Libvirt's test hypervisor keeps books of volumes and writes no files. So a file system is unmounted by removing all
volumes from the books, and planted volumes are real files at the paths that the books name.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.agent.core import first_state, observe, take
from hostler.agent.drivers.driver import BlockedError, DiskMissingError, DriverError, StorageUnavailableError
from hostler.agent.drivers.libvirt_inspection import check_volumes
from hostler.agent.drivers.libvirt_xml import Volume, volume_name
from hostler.agent.messages import Disk, Image, Orders
from hostler.agent.planning import plan
from hostler.agent.reporting import reports
from hostler.agent.state import Record
from tests.agent.drivers import test_qemu_planted_disks as planted
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.libvirt_lab import POOL, SHARED_POOL, LibvirtLab

libvirt = pytest.importorskip("libvirt")

VM = "5f1c2a36-3f43-4c2f-9a3b-0d7a5b1c9e42"
SIZE = planted.SIZE
POOLS = {"": POOL, "shared": SHARED_POOL}


def in_a_lab(scenario, folder, **options):
    async def run():
        lab = LibvirtLab(folder, **options)
        try:
            await scenario(lab)
        finally:
            await lab.clean()

    asyncio.run(run())


def order(lab, *storages, **changes):
    disks = tuple(Disk(size_bytes=SIZE, storage=storage) for storage in storages or ("",))
    return msgspec.structs.replace(lab.order(VM), disks=disks, **changes)


def unmount(lab, storage):
    """Leave a pool that runs and has nothing in it; return what brings its volumes back."""
    pool = lab.connection.storagePoolLookupByName(POOLS[storage])
    described = [volume.XMLDesc(0) for volume in pool.listAllVolumes(0)]
    for volume in pool.listAllVolumes(0):
        volume.delete(0)

    def mount():
        for volume in pool.listAllVolumes(0):
            volume.delete(0)
        for text in described:
            pool.createXML(text, 0)

    return mount


@pytest.mark.parametrize("storage", POOLS)
def test_pool_on_an_empty_mount_point_is_unavailable(storage, tmp_path):
    """It runs, as libvirt sees it; nothing is made in it, and mounted again all is as before."""

    async def scenario(lab):
        async with opened(lab) as driver:
            assert await driver.unavailable() == {}
            await driver.create(order(lab, storage))
            mount = unmount(lab, storage)
            found = await driver.unavailable()
            assert list(found) == [storage]
            assert POOLS[storage] in found[storage]
            with pytest.raises(StorageUnavailableError):
                await driver.create(msgspec.structs.replace(order(lab, storage), vm="another"))
            assert lab.volumes(POOLS[storage]) == []
        async with opened(lab) as driver:
            assert list(await driver.unavailable()) == [storage]
            assert await power_of(driver, VM) == "stopped"
            mount()
            assert await driver.unavailable() == {}
            await driver.start(VM)

    in_a_lab(scenario, tmp_path)


def test_unmounted_pool_makes_no_vm_absent(tmp_path):
    """What the agent reports of its VMs: their state, and that their storage is unavailable; not that they are gone."""

    async def scenario(lab):
        async with opened(lab) as driver:
            orders = [msgspec.structs.replace(order(lab), vm=f"vm-{number}", since=1) for number in range(3)]
            await driver.unavailable()
            for one in orders:
                await driver.create(one)
            unmount(lab, "")
            records = [Record(vm=one.vm, made=one, generation=1) for one in orders]
            state = first_state(await driver.size(), records)
            state = take(state, Orders(version=1, is_full=True, orders=tuple(orders)))
            state = observe(state, await driver.find(), unavailable=await driver.unavailable())
            made = plan(state, 0)
            assert made.actions == []
            said = {vm: (report.state, report.trouble.code) for vm, report in reports(state, made).items()}
            assert said == {one.vm: ("stopped", "storage_unavailable") for one in orders}

    in_a_lab(scenario, tmp_path)


@pytest.mark.parametrize("is_mounted", [True, False], ids=["mounted", "unmounted"])
def test_pool_of_an_older_version_is_marked_only_with_its_volumes(is_mounted, tmp_path):
    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(order(lab))
        (tmp_path / "one.marks").unlink(missing_ok=True)
        pool = lab.connection.storagePoolLookupByName(POOL)
        for volume in pool.listAllVolumes(0):
            if volume.name().startswith("hostler-storage-") or not is_mounted:
                volume.delete(0)
        async with opened(lab) as driver:
            assert list(await driver.unavailable()) == ([] if is_mounted else [""])

    in_a_lab(scenario, tmp_path)


def test_local_pool_that_does_not_run_at_agent_start_is_unavailable(tmp_path):
    """It was used before, so a host without it is not one without disks."""

    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.unavailable()
        pool = lab.connection.storagePoolLookupByName(POOL)
        pool.destroy()
        try:
            async with opened(lab) as driver:
                assert list(await driver.unavailable()) == [""]
        finally:
            pool.create(0)

    in_a_lab(scenario, tmp_path)


def test_local_volume_that_disappears_makes_its_vm_absent(tmp_path):
    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.unavailable()
            await driver.create(order(lab))
            lab.connection.storagePoolLookupByName(POOL).storageVolLookupByName(volume_name(VM, 0)).delete(0)
            assert await power_of(driver, VM) == "absent"
            assert VM in [found.vm for found in await driver.find_running()], "a watchdog looks at no disks"
            with pytest.raises(DiskMissingError):
                await driver.create(order(lab, has_disks=True))
            with pytest.raises(DiskMissingError):
                await driver.start(VM)
            await driver.create(order(lab))
            await driver.start(VM)
            assert await power_of(driver, VM) == "running"

    in_a_lab(scenario, tmp_path)


class PlantedLab(LibvirtLab):
    """A lab whose shared pool lies in a real folder."""

    def __init__(self, folder, **options):
        shared = folder / "pool"
        shared.mkdir()
        super().__init__(folder, storages={"shared": "planted-pool"}, **options)
        text = f"<pool type='dir'><name>planted-pool</name><target><path>{shared}</path></target></pool>"
        self.pool = self.connection.storagePoolCreateXML(text, 0)
        self.disk = shared / volume_name(VM, 0)

    async def clean(self):
        self._wipe()
        for volume in self.pool.listAllVolumes(0):
            volume.delete(0)
        self.pool.destroy()
        self.connection.close()


def in_a_planted_lab(scenario, folder):
    async def run():
        lab = PlantedLab(folder)
        try:
            async with opened(lab) as driver:
                await scenario(lab, driver)
        finally:
            await lab.clean()

    asyncio.run(run())


# Libvirt rounds sizes, and may write version 2 itself.
PLANTED = {
    plant: reason for plant, reason in planted.PLANTED.items() if plant.__name__ not in ("huge", "small", "old_version")
}


@pytest.mark.parametrize(("plant", "reason"), PLANTED.items(), ids=[plant.__name__ for plant in PLANTED])
def test_planted_volume_is_rejected_before_boot(plant, reason, tmp_path):
    async def scenario(lab, driver):
        await driver.create(order(lab, "shared"))
        secret = tmp_path / "secret"
        secret.write_bytes(b"of this host alone".ljust(SIZE, b"."))
        plant(lab.disk, secret)
        with pytest.raises(BlockedError, match=f"{lab.disk.name} {reason}"):
            await driver.start(VM)
        assert await power_of(driver, VM) == "stopped"

    in_a_planted_lab(scenario, tmp_path)


@pytest.mark.parametrize("version", ["0.10", "1.1"])
def test_volume_as_it_was_made_boots(version, tmp_path):
    async def scenario(lab, driver):
        planted.make(tmp_path / "base.qcow2")
        disk = Disk(size_bytes=SIZE, storage="shared", image=Image(path="base.qcow2"))
        await driver.create(msgspec.structs.replace(lab.order(VM), disks=(disk,)))
        planted.make(lab.disk, "-b", str(tmp_path / "base.qcow2"), "-F", "qcow2", "-o", f"compat={version}")
        await driver.start(VM)
        assert await power_of(driver, VM) == "running"

    in_a_planted_lab(scenario, tmp_path)


@pytest.mark.parametrize("version", ["0.10", "1.1"])
def test_volume_over_another_image_is_rejected_before_boot(version, tmp_path):
    """Version 2 names a file below, too."""

    async def scenario(lab, driver):
        for name in ("base.qcow2", "other.qcow2"):
            planted.make(tmp_path / name)
        disk = Disk(size_bytes=SIZE, storage="shared", image=Image(path="base.qcow2"))
        await driver.create(msgspec.structs.replace(lab.order(VM), disks=(disk,)))
        planted.make(lab.disk, "-b", str(tmp_path / "other.qcow2"), "-F", "qcow2", "-o", f"compat={version}")
        with pytest.raises(BlockedError, match=r"is laid over .*other\.qcow2, not over base\.qcow2"):
            await driver.start(VM)

    in_a_planted_lab(scenario, tmp_path)


@pytest.mark.parametrize("place", ["images", "secrets"])
def test_volume_of_an_older_version_lies_over_an_image_of_this_host(place, tmp_path):
    """Its domain does not say which image was ordered: one below the folders of images is accepted."""
    outside = tmp_path.with_name(f"{tmp_path.name}-secrets")
    outside.mkdir()
    base = (tmp_path if place == "images" else outside) / "base"
    planted.make(base)
    lab = PlantedLab(tmp_path)
    try:
        planted.make(lab.disk, "-b", str(base), "-F", "qcow2")
        lab.pool.createXML(f"<volume><name>{lab.disk.name}</name><capacity>{SIZE}</capacity></volume>", 0)
        noted_by_nobody = [Volume("planted-pool", lab.disk.name, None)]
        if place == "images":
            check_volumes(lab.connection, noted_by_nobody, [tmp_path])
        else:
            with pytest.raises(DriverError):
                check_volumes(lab.connection, noted_by_nobody, [tmp_path])
    finally:
        asyncio.run(lab.clean())


class FarVolume:
    """A volume that only libvirt may read: it is sent in a stream."""

    def __init__(self, path):
        self._path = path

    def name(self):
        return self._path.name

    def path(self):
        return f"/far{self._path}"

    def info(self):
        return [0, SIZE, SIZE]

    def download(self, stream, offset, length, flags):
        stream.content = self._path.read_bytes()[offset : offset + length]


class FarHost:
    """A connection to another machine, as far as volumes go: one pool with one volume."""

    def __init__(self, path):
        self._volume = FarVolume(path)
        self.content = b""

    def getURI(self):
        return "qemu+tls://far.example/system"

    def listAllStoragePools(self, flags):
        return [self]

    def name(self):
        return "far"

    def isActive(self):
        return True

    def listAllVolumes(self, flags):
        return [self._volume]

    def newStream(self, flags):
        return self

    def recv(self, count):
        piece, self.content = self.content[:count], self.content[count:]
        return piece

    def finish(self):
        pass


@pytest.mark.parametrize("plant", [planted.data_file, planted.backing_file, planted.encrypted, planted.raw])
def test_planted_volume_that_only_libvirt_reads_is_rejected(plant, tmp_path):
    disk, secret = tmp_path / "disk.qcow2", tmp_path / "secret"
    secret.write_bytes(bytes(SIZE))
    planted.make(disk)
    check_volumes(FarHost(disk), [Volume("far", disk.name)], [])
    disk.unlink()
    plant(disk, secret)
    with pytest.raises(BlockedError, match=planted.PLANTED[plant]):
        check_volumes(FarHost(disk), [Volume("far", disk.name)], [])
