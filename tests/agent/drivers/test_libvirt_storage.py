"""Storage pools without their storage, volumes that disappear, and volumes that root of another host planted.

Libvirt's test hypervisor keeps books of volumes and writes no files. So a file system is unmounted by removing all
volumes from the books, and planted volumes are real files at the paths that the books name.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from hostler.agent.core.decisions import first_state, observe, take
from hostler.agent.core.plan import plan
from hostler.agent.core.reports import reports
from hostler.agent.core.state import Record
from hostler.agent.driver import BlockedError, DiskMissingError, DriverError, StorageUnavailableError
from hostler.agent.drivers.libvirt.domain_xml import Volume, volume_name
from hostler.agent.drivers.libvirt.storage import check_volumes
from hostler.agent.messages import Disk, Image, Orders
from tests.agent.drivers import test_qemu_planted_disks as planted
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.libvirt_setup import POOL, SHARED_POOL, LibvirtSetup

libvirt = pytest.importorskip("libvirt")

VM = "5f1c2a36-3f43-4c2f-9a3b-0d7a5b1c9e42"
SIZE = planted.SIZE
POOLS = {"": POOL, "shared": SHARED_POOL}


@asynccontextmanager
async def libvirt_setup(folder, **options):
    setup = LibvirtSetup(folder, **options)
    try:
        yield setup
    finally:
        await setup.clean()


def order(setup, *storages, **changes):
    disks = tuple(Disk(size_bytes=SIZE, storage=storage) for storage in storages or ("",))
    return msgspec.structs.replace(setup.order(VM), disks=disks, **changes)


def unmount(setup, storage):
    """Leave a pool that runs and has nothing in it; return what brings its volumes back."""
    pool = setup.connection.storagePoolLookupByName(POOLS[storage])
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
async def test_pool_on_an_empty_mount_point_is_unavailable(storage, tmp_path):
    """It runs, as libvirt sees it; nothing is made in it, and mounted again all is as before."""

    async with libvirt_setup(tmp_path) as setup:
        async with opened(setup) as driver:
            assert await driver.unavailable() == {}
            await driver.create(order(setup, storage))
            mount = unmount(setup, storage)
            found = await driver.unavailable()
            assert list(found) == [storage]
            assert POOLS[storage] in found[storage]
            with pytest.raises(StorageUnavailableError):
                await driver.create(msgspec.structs.replace(order(setup, storage), vm="another"))
            assert setup.volumes(POOLS[storage]) == []
        async with opened(setup) as driver:
            assert list(await driver.unavailable()) == [storage]
            assert await power_of(driver, VM) == "stopped"
            mount()
            assert await driver.unavailable() == {}
            await driver.start(VM)


async def test_unmounted_pool_makes_no_vm_absent(tmp_path):
    """What the agent reports of its VMs: their state, and that their storage is unavailable; not that they are gone."""

    async with libvirt_setup(tmp_path) as setup, opened(setup) as driver:
        orders = [msgspec.structs.replace(order(setup), vm=f"vm-{number}", since=1) for number in range(3)]
        await driver.unavailable()
        for one in orders:
            await driver.create(one)
        unmount(setup, "")
        records = [Record(vm=one.vm, made=one, generation=1) for one in orders]
        state = first_state(await driver.size(), records)
        state = take(state, Orders(version=1, is_full=True, orders=tuple(orders)))
        state = observe(state, await driver.find(), unavailable=await driver.unavailable())
        made = plan(state, 0)
        assert made.actions == []
        said = {vm: (report.state, report.trouble.code) for vm, report in reports(state, made).items()}
        assert said == {one.vm: ("stopped", "storage_unavailable") for one in orders}


@pytest.mark.parametrize("is_mounted", [True, False], ids=["mounted", "unmounted"])
async def test_pool_of_an_older_version_is_marked_only_with_its_volumes(is_mounted, tmp_path):
    async with libvirt_setup(tmp_path) as setup:
        async with opened(setup) as driver:
            await driver.create(order(setup))
        (tmp_path / "one.marks").unlink(missing_ok=True)
        pool = setup.connection.storagePoolLookupByName(POOL)
        for volume in pool.listAllVolumes(0):
            if volume.name().startswith("hostler-storage-") or not is_mounted:
                volume.delete(0)
        async with opened(setup) as driver:
            assert list(await driver.unavailable()) == ([] if is_mounted else [""])


async def test_local_pool_that_does_not_run_at_agent_start_is_unavailable(tmp_path):
    """It was used before, so a host without it is not one without disks."""

    async with libvirt_setup(tmp_path) as setup:
        async with opened(setup) as driver:
            await driver.unavailable()
        pool = setup.connection.storagePoolLookupByName(POOL)
        pool.destroy()
        try:
            async with opened(setup) as driver:
                assert list(await driver.unavailable()) == [""]
        finally:
            pool.create(0)


async def test_local_volume_that_disappears_makes_its_vm_absent(tmp_path):
    async with libvirt_setup(tmp_path) as setup, opened(setup) as driver:
        await driver.unavailable()
        await driver.create(order(setup))
        setup.connection.storagePoolLookupByName(POOL).storageVolLookupByName(volume_name(VM, 0)).delete(0)
        assert await power_of(driver, VM) == "absent"
        assert VM in [found.vm for found in await driver.find_running()], "a watchdog looks at no disks"
        with pytest.raises(DiskMissingError):
            await driver.create(order(setup, has_disks=True))
        with pytest.raises(DiskMissingError):
            await driver.start(VM)
        await driver.create(order(setup))
        await driver.start(VM)
        assert await power_of(driver, VM) == "running"


class PlantedSetup(LibvirtSetup):
    """A setup whose shared pool lies in a real folder."""

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


@asynccontextmanager
async def planted_setup(folder):
    setup = PlantedSetup(folder)
    try:
        async with opened(setup) as driver:
            yield setup, driver
    finally:
        await setup.clean()


# Libvirt rounds sizes, and may write version 2 itself.
PLANTED = {
    plant: reason for plant, reason in planted.PLANTED.items() if plant.__name__ not in ("huge", "small", "old_version")
}


@pytest.mark.parametrize(("plant", "reason"), PLANTED.items(), ids=[plant.__name__ for plant in PLANTED])
async def test_planted_volume_is_rejected_before_boot(plant, reason, tmp_path):
    async with planted_setup(tmp_path) as (setup, driver):
        await driver.create(order(setup, "shared"))
        secret = tmp_path / "secret"
        secret.write_bytes(b"of this host alone".ljust(SIZE, b"."))
        plant(setup.disk, secret)
        with pytest.raises(BlockedError, match=f"{setup.disk.name} {reason}"):
            await driver.start(VM)
        assert await power_of(driver, VM) == "stopped"


@pytest.mark.parametrize("version", ["0.10", "1.1"])
async def test_volume_as_it_was_made_boots(version, tmp_path):
    async with planted_setup(tmp_path) as (setup, driver):
        planted.make(tmp_path / "base.qcow2")
        disk = Disk(size_bytes=SIZE, storage="shared", image=Image(path="base.qcow2"))
        await driver.create(msgspec.structs.replace(setup.order(VM), disks=(disk,)))
        planted.make(setup.disk, "-b", str(tmp_path / "base.qcow2"), "-F", "qcow2", "-o", f"compat={version}")
        await driver.start(VM)
        assert await power_of(driver, VM) == "running"


@pytest.mark.parametrize("version", ["0.10", "1.1"])
async def test_volume_over_another_image_is_rejected_before_boot(version, tmp_path):
    """Version 2 names a file below, too."""

    async with planted_setup(tmp_path) as (setup, driver):
        for name in ("base.qcow2", "other.qcow2"):
            planted.make(tmp_path / name)
        disk = Disk(size_bytes=SIZE, storage="shared", image=Image(path="base.qcow2"))
        await driver.create(msgspec.structs.replace(setup.order(VM), disks=(disk,)))
        planted.make(setup.disk, "-b", str(tmp_path / "other.qcow2"), "-F", "qcow2", "-o", f"compat={version}")
        with pytest.raises(BlockedError, match=r"is laid over .*other\.qcow2, not over base\.qcow2"):
            await driver.start(VM)


@pytest.mark.parametrize("place", ["images", "secrets"])
def test_volume_of_an_older_version_lies_over_an_image_of_this_host(place, tmp_path):
    """Its domain does not say which image was ordered: one below the folders of images is accepted."""
    outside = tmp_path.with_name(f"{tmp_path.name}-secrets")
    outside.mkdir()
    base = (tmp_path if place == "images" else outside) / "base"
    planted.make(base)
    setup = PlantedSetup(tmp_path)
    try:
        planted.make(setup.disk, "-b", str(base), "-F", "qcow2")
        setup.pool.createXML(f"<volume><name>{setup.disk.name}</name><capacity>{SIZE}</capacity></volume>", 0)
        noted_by_nobody = [Volume("planted-pool", setup.disk.name, None)]
        if place == "images":
            check_volumes(setup.connection, noted_by_nobody, [tmp_path])
        else:
            with pytest.raises(DriverError):
                check_volumes(setup.connection, noted_by_nobody, [tmp_path])
    finally:
        asyncio.run(setup.clean())


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
