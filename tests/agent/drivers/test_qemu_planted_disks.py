"""Disks that root of another host planted on shared storage: rejected before each use, with a reason to act on.

Each file is made by the real qemu-img, as an attacker would. A VM that boots from one of them could read any file that
its process may open, so the driver checks what it opened, at each boot, landing and resize.
"""

from __future__ import annotations

import os
import struct
import subprocess

import pytest

from hostler.agent.driver import BlockedError, DriverError
from hostler.agent.messages import Disk, Image
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_setup import MIB, in_qemu_setup, on_hosts
from tests.async_tests import run_with

SIZE = 4 * MIB


def make(path, *options, kind="qcow2", size=SIZE):
    subprocess.run(["qemu-img", "create", "-q", "-f", kind, *options, path, str(size)], check=True, capture_output=True)


def change(path, offset, layout, *values):
    """Write into a header."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack(layout, *values))


def data_file(disk, secret):
    content = secret.read_bytes()
    make(disk, "-o", f"data_file={secret},data_file_raw=on")
    secret.write_bytes(content)


def data_file_without_name(disk, secret):
    make(disk)
    change(disk, 72, ">Q", 4)


def backing_file(disk, secret):
    make(disk, "-b", str(secret), "-F", "raw")


def json_backing(disk, secret):
    make(disk, "-u", "-b", f'json:{{"driver":"raw","file":{{"driver":"file","filename":"{secret}"}}}}', "-F", "raw")


def deep_chain(disk, secret):
    make(secret.with_name("middle"), "-b", str(secret), "-F", "raw")
    make(disk, "-b", str(secret.with_name("middle")), "-F", "qcow2")


def encrypted(disk, secret):
    make(disk, "--object", "secret,id=s,data=x", "-o", "encrypt.format=aes,encrypt.key-secret=s")


def luks(disk, secret):
    """By hand: qemu-img measures the processor for this, which not every machine allows."""
    make(disk)
    change(disk, 32, ">I", 2)


def snapshots(disk, secret):
    make(disk)
    subprocess.run(["qemu-img", "snapshot", "-c", "one", disk], check=True)


def huge(disk, secret):
    make(disk, size=2**50)


def small(disk, secret):
    make(disk, size=MIB)


def raw(disk, secret):
    make(disk, kind="raw")


def old_version(disk, secret):
    make(disk, "-o", "compat=0.10")


def vmdk(disk, secret):
    make(disk, kind="vmdk")


def empty(disk, secret):
    disk.touch()


def short(disk, secret):
    make(disk)
    os.truncate(disk, 60)


def damaged(disk, secret):
    make(disk)
    change(disk, 72, ">Q", 2)


def unknown_feature(disk, secret):
    make(disk)
    change(disk, 72, ">Q", 1 << 40)


def endless_extension(disk, secret):
    make(disk)
    change(disk, 112, ">II", 0x6803F857, 2**32 - 8)


def symlink(disk, secret):
    disk.symlink_to(secret)


def fifo(disk, secret):
    os.mkfifo(disk)


def device(disk, secret):
    if os.getuid() != 0:
        pytest.skip("only root makes device nodes")
    os.mknod(disk, 0o060660, os.makedev(7, 0))


def hard_link(disk, secret):
    make(secret.with_name("other"))
    os.link(secret.with_name("other"), disk)


def folder(disk, secret):
    disk.mkdir()


PLANTED = {
    data_file: "keeps its data in another file",
    data_file_without_name: "keeps its data in another file",
    backing_file: "is laid over .*secret",
    json_backing: "is laid over json:",
    deep_chain: "is laid over .*middle",
    encrypted: "is encrypted",
    luks: "is encrypted",
    snapshots: "has internal snapshots",
    huge: "has 1125899906842624 bytes, not 4194304",
    small: "has 1048576 bytes, not 4194304",
    raw: "is not in the format qcow2",
    old_version: "is in version 2 of qcow2",
    vmdk: "is not in the format qcow2",
    empty: "is not in the format qcow2",
    short: "has a damaged header",
    damaged: "is marked as damaged",
    unknown_feature: "uses features .* that this host does not know",
    endless_extension: "has a damaged header",
    symlink: "is no plain file",
    fifo: "is no plain file",
    device: "is no plain file",
    hard_link: "has a second name",
    folder: "is no plain file",
}
NAMES = [plant.__name__ for plant in PLANTED]


def replace_disk(setup, plant):
    """Put a planted file in the place of the VM's disk, as root of another host could."""
    disk, secret = setup.shared / "a-disk0.qcow2", setup.folder / "secret"
    secret.write_bytes(b"of this host alone".ljust(SIZE, b"."))
    secret.chmod(0o644)
    disk.unlink(missing_ok=True)
    plant(disk, secret)
    if disk.is_file() and not disk.is_symlink():
        disk.chmod(0o666)


def order(setup, **changes):
    return setup.order("a", disks=(Disk(size_bytes=SIZE, storage="nfs"),), **changes)


@pytest.mark.parametrize(("plant", "reason"), PLANTED.items(), ids=NAMES)
@run_with(on_hosts)
async def test_planted_disk_is_rejected_before_boot(setup, driver, /, plant, reason):
    await driver.create(order(setup))
    replace_disk(setup, plant)
    with pytest.raises(BlockedError, match=f"a-disk0.qcow2 {reason}") as caught:
        await driver.start("a")
    assert "a-disk0.qcow2" in caught.value.hint or "qemu-img" in caught.value.hint
    assert await power_of(driver, "a") == "stopped"


@pytest.mark.parametrize("plant", [data_file, backing_file, huge, hard_link], ids=lambda plant: plant.__name__)
@run_with(on_hosts)
async def test_planted_disk_is_not_adopted_by_create(setup, driver, /, plant):
    setup.shared.joinpath("a-disk0.qcow2").unlink(missing_ok=True)
    replace_disk(setup, plant)
    with pytest.raises(BlockedError, match=r"a-disk0\.qcow2"):
        await driver.create(order(setup))
    assert await power_of(driver, "a") == "absent"


@pytest.mark.parametrize("plant", [data_file, backing_file, huge, fifo], ids=lambda plant: plant.__name__)
@run_with(on_hosts)
async def test_planted_disk_is_rejected_before_resize(setup, driver, /, plant):
    await driver.create(order(setup))
    replace_disk(setup, plant)
    with pytest.raises(BlockedError, match=r"a-disk0\.qcow2"):
        await driver.resize("a", setup.order("a", 2, disks=(Disk(size_bytes=2 * SIZE, storage="nfs"),)))
    assert (setup.folder / "secret").stat().st_size == SIZE


@pytest.mark.parametrize("plant", [data_file, backing_file, symlink], ids=lambda plant: plant.__name__)
@run_with(on_hosts, "one", "two")
async def test_planted_disk_is_rejected_before_a_landing(setup, one, two, /, plant):
    """The source's own QEMU has the real file open; the target sees what lies in its place."""

    await one.create(order(setup))
    await one.start("a")
    landing = await two.await_landing(order(setup))
    real = setup.shared / "real"
    (setup.shared / "a-disk0.qcow2").rename(real)
    replace_disk(setup, plant)
    with pytest.raises(DriverError, match=r"a-disk0\.qcow2"):
        await one.send("a", landing)
    assert await power_of(one, "a") == "running"
    (setup.shared / "a-disk0.qcow2").unlink()
    real.rename(setup.shared / "a-disk0.qcow2")
    await one.send("a", landing)
    assert await power_of(two, "a") == "running"


@run_with(on_hosts)
async def test_disk_of_another_image_is_rejected(setup, driver, /):
    """A disk whose header names an image that is not the VM's own would show the guest a mixture of both."""

    for name in ("base", "other"):
        make(setup.images / name)
        (setup.images / name).chmod(0o644)
    disk = Disk(size_bytes=SIZE, storage="nfs", image=Image(path="base"))
    await driver.create(setup.order("a", disks=(disk,)))
    await driver.start("a")
    await driver.stop("a", grace_s=0)
    planted = setup.shared / "a-disk0.qcow2"
    planted.unlink()
    make(planted, "-b", str(setup.images / "other"), "-F", "qcow2")
    with pytest.raises(BlockedError, match=r"is laid over .*other, not over base"):
        await driver.start("a")


@run_with(on_hosts)
async def test_shared_disk_that_is_too_small_grows_when_a_host_adopts_it(setup, driver, /):
    """A VM was resized and its host died before it grew the disk: the next host does it."""

    make(setup.shared / "a-disk0.qcow2", size=MIB)
    (setup.shared / "a-disk0.qcow2").chmod(0o666)
    await driver.create(order(setup))
    await driver.start("a")


@run_with(in_qemu_setup)
async def test_local_disk_that_was_replaced_is_rejected_before_boot(setup, /):
    async with opened(setup) as driver:
        await driver.create(setup.order("a", disks=(Disk(size_bytes=SIZE),)))
        disk = setup.folder / "one" / "vms" / "a" / "disks" / "disk0.qcow2"
        disk.unlink()
        disk.symlink_to("/etc/hostname")
        with pytest.raises(BlockedError, match=r"disk0\.qcow2 is no plain file"):
            await driver.start("a")
