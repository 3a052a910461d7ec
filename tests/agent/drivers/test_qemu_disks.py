"""Disks by the real qemu-img: overlays over images that stay as they are; what would reach further is refused."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from hostler.agent.driver import BlockedError, PermanentError
from hostler.agent.messages import Disk, Image
from tests.agent.drivers.qemu_setup import MIB, on_hosts
from tests.async_tests import run_with


def image(setup, name, *arguments, kind="qcow2", size="4M"):
    subprocess.run(["qemu-img", "create", "-q", "-f", kind, *arguments, setup.images / name, size], check=True)
    (setup.images / name).chmod(0o644)


def info(path):
    command = ["qemu-img", "info", "--output=json", "-U", path]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def disk_file(setup, host="one", vm="a"):
    return setup.folder / host / "vms" / vm / "disks" / "disk0.qcow2"


@pytest.mark.parametrize("kind", ["qcow2", "raw"])
@run_with(on_hosts)
async def test_disk_is_an_overlay_over_its_image_and_belongs_to_its_vm(setup, driver, /, kind):
    image(setup, "base", kind=kind)
    await driver.create(setup.order("a", disks=(Disk(size_bytes=16 * MIB, image=Image(path="base")),)))
    found = info(disk_file(setup))
    assert (found["virtual-size"], found["backing-filename-format"]) == (16 * MIB, kind)
    assert found["backing-filename"] == str(setup.images / "base")
    owner = disk_file(setup).stat().st_uid
    assert owner == (setup.folder / "one" / "vms" / "a" / "run").stat().st_uid, "who may write the console, too"
    assert owner != 0 or os.getuid() != 0
    await driver.start("a")


@run_with(on_hosts)
async def test_a_disk_without_an_image_is_empty(setup, driver, /):
    await driver.create(setup.order("a", disks=(Disk(size_bytes=MIB),)))
    assert "backing-filename" not in info(disk_file(setup))


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["-b", "/etc/hostname", "-F", "raw"], "qcow2"),
        (["-o", "data_file=OTHER,data_file_raw=on"], "qcow2"),
        ([], "vmdk"),
    ],
    ids=["backing file", "data elsewhere", "format"],
)
@run_with(on_hosts)
async def test_an_image_that_names_other_files_or_is_of_another_kind_is_refused(setup, driver, /, arguments, kind):
    places = [text.replace("OTHER", str(setup.images / "other")) for text in arguments]
    image(setup, "base", *places, kind=kind)
    for file in setup.images.iterdir():
        file.chmod(0o644)
    with pytest.raises(PermanentError):
        await driver.create(setup.order("a", disks=(Disk(size_bytes=16 * MIB, image=Image(path="base")),)))
    assert not [found for found in await driver.find() if found.is_ours]


@run_with(on_hosts)
async def test_what_is_wrong_about_a_disk_is_said_before_anything_is_made(setup, driver, /):
    image(setup, "base", size="32M")
    for disk in (
        Disk(size_bytes=16 * MIB, image=Image(path="base")),
        Disk(size_bytes=1000),
        Disk(size_bytes=0),
        Disk(size_bytes=MIB, storage="elsewhere"),
        Disk(size_bytes=MIB, image=Image()),
        Disk(size_bytes=MIB, image=Image(path="base", url="http://h/x")),
    ):
        with pytest.raises(PermanentError):
            await driver.create(setup.order("a", disks=(disk,)))
    with pytest.raises(BlockedError):
        await driver.create(setup.order("a", disks=(Disk(size_bytes=MIB, image=Image(path="not-yet")),)))
    assert not list((setup.folder / "one" / "vms").iterdir())


@run_with(on_hosts)
async def test_a_disk_grows_and_does_not_shrink(setup, driver, /):
    await driver.create(setup.order("a", disks=(Disk(size_bytes=MIB),)))
    await driver.resize("a", setup.order("a", 2, disks=(Disk(size_bytes=2 * MIB),)))
    assert info(disk_file(setup))["virtual-size"] == 2 * MIB
    for disks in ((Disk(size_bytes=MIB),), (), (Disk(size_bytes=2 * MIB), Disk(size_bytes=MIB))):
        with pytest.raises(PermanentError):
            await driver.resize("a", setup.order("a", 3, disks=disks))


@pytest.mark.parametrize("is_told", [False, True], ids=["by itself", "as told"])
@run_with(on_hosts, "one", "two")
async def test_shared_disk_goes_with_the_vm_not_with_a_host_it_left(setup, one, two, /, is_told):
    order = setup.order("a", disks=(Disk(size_bytes=4 * MIB, storage="nfs"),))
    disk = setup.folder / "shared" / "a-disk0.qcow2"
    await one.create(order)
    inode = disk.stat().st_ino
    await two.create(order)  # restarted there, since the first host was fenced
    assert disk.stat().st_ino == inode, "what is there is the VM's own disk"
    await one.delete("a", keeps_shared=is_told)
    assert sorted(path.name for path in disk.parent.iterdir() if path.suffix) == [disk.name, f"{disk.name}.host"]
    await two.start("a")
    await two.delete("a")
    assert [path.name for path in (setup.folder / "shared").iterdir()] == [".hostler-storage"]


@pytest.mark.parametrize("name", ["a-disk0.qcow2", "a-disk0.qcow2.host"])
@run_with(on_hosts)
async def test_links_on_shared_storage_lead_nowhere(setup, driver, /, name):
    secret = setup.folder / "secret"
    secret.write_text("mine")
    secret.chmod(0o666)
    (setup.shared / name).symlink_to(secret)
    order = setup.order("a", disks=(Disk(size_bytes=4 * MIB, storage="nfs"),))
    if name.endswith(".host"):
        await driver.create(order)
        await driver.delete("a")
    else:
        with pytest.raises(BlockedError, match="no plain file"):
            await driver.create(order)
    assert secret.read_text() == "mine"


@run_with(on_hosts, "one", "two")
async def test_a_vm_on_shared_storage_migrates_with_its_disk(setup, one, two, /):
    order = setup.order("a", disks=(Disk(size_bytes=4 * MIB, storage="nfs"),))
    disk = setup.folder / "shared" / "a-disk0.qcow2"
    await one.create(order)
    await one.start("a")
    landing = await two.await_landing(order)
    await two.delete("a")
    assert disk.exists(), "a landing has no disk of its own"
    landing = await two.await_landing(order)
    await one.send("a", landing)
    await one.delete("a")
    assert disk.exists()
    assert [found.power for found in await two.find() if found.is_ours] == ["running"]
    await two.delete("a")
    assert not disk.exists()


@run_with(on_hosts, "one", "two")
async def test_a_vm_with_a_disk_of_one_host_does_not_migrate(setup, one, two, /):
    order = setup.order("a", disks=(Disk(size_bytes=MIB),))
    with pytest.raises(PermanentError, match="one host only"):
        await two.await_landing(order)
    landing = await two.await_landing(setup.order("a"))
    await one.create(order)
    await one.start("a")
    with pytest.raises(PermanentError, match="one host only"):
        await one.send("a", landing)
