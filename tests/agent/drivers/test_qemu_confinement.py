"""What a process of QEMU can reach: its own uid, its own files, and no name that a disk could make it open."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hostler.agent.driver import BlockedError
from hostler.agent.drivers.machine.landlock import AllowedFiles, abi_version, in_domain
from hostler.agent.drivers.machine.processes import VmUser
from hostler.agent.drivers.qemu.driver import QemuDriver
from hostler.agent.drivers.qemu.folder import VmFolder
from hostler.agent.drivers.qemu.monitor import CommandRejectedError, session
from hostler.agent.drivers.qemu.settings import QemuSettings, uids_of
from hostler.agent.drivers.qemu.users import VmUsers
from hostler.agent.messages import Disk, VmNetwork
from hostler.errors import InputError
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_setup import MIB, in_qemu_setup, on_hosts
from tests.async_tests import run_with
from tests.recorded_log import recorded_log

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives VMs users of their own")
needs_landlock = pytest.mark.skipif(not abi_version(), reason="this kernel has no Landlock")
UIDS = range(200_000, 200_008)


def run_owner(setup, vm, host="one"):
    return (setup.folder / host / "vms" / vm / "run").stat().st_uid


def uid_of_process(setup, vm, host="one"):
    process = VmFolder(setup.folder / host / "vms" / vm).read_process()
    return Path("/proc", str(process.pid)).stat().st_uid


@needs_root
@run_with(on_hosts)
async def test_each_vm_runs_under_a_uid_of_its_own(setup, driver, /):
    for vm in ("a", "b"):
        await driver.create(setup.order(vm, disks=(Disk(size_bytes=MIB),), network=VmNetwork(kind="user")))
        await driver.start(vm)
    uids = {vm: uid_of_process(setup, vm) for vm in ("a", "b")}
    assert uids["a"] != uids["b"]
    for vm, uid in uids.items():
        assert uid in (uids_of(setup.settings()) or ())
        assert run_owner(setup, vm) == uid
        disk = setup.folder / "one" / "vms" / vm / "disks" / "disk0.qcow2"
        assert (disk.stat().st_uid, disk.stat().st_mode & 0o077) == (uid, 0)


@needs_root
@run_with(in_qemu_setup)
async def test_vm_keeps_its_uid_when_the_agent_restarts(setup, /):
    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
        await driver.start("a")
        uid = uid_of_process(setup, "a")
    async with opened(setup) as driver:
        assert await power_of(driver, "a") == "running"
        await driver.stop("a", grace_s=0)
        await driver.start("a")
        assert uid_of_process(setup, "a") == uid


@needs_root
@run_with(in_qemu_setup)
async def test_vm_of_an_earlier_version_gets_its_uid_at_the_next_boot(setup, /):
    """It ran as the user of all VMs; it is adopted as it is, and its disk goes with it to its new user."""

    order = setup.order("a", disks=(Disk(size_bytes=MIB), Disk(size_bytes=MIB, storage="nfs")))
    before = QemuDriver(setup.settings(uids="none"))
    await before.open()
    await before.create(order)
    await before.start("a")
    common = uid_of_process(setup, "a")
    await before.close()
    async with opened(setup) as driver:
        assert await power_of(driver, "a") == "running"
        assert run_owner(setup, "a") == common
        await driver.stop("a", grace_s=0)
        await driver.start("a")
        uid = uid_of_process(setup, "a")
        assert uid != common
        assert (setup.folder / "one" / "vms" / "a" / "disks" / "disk0.qcow2").stat().st_uid == uid
        assert await power_of(driver, "a") == "running"


@needs_root
@run_with(in_qemu_setup)
async def test_vm_moves_between_hosts_that_gave_it_different_uids(setup, /):
    """QEMU gets its disk as a descriptor, so a uid that is taken at the target does not matter."""

    order = setup.order("a", disks=(Disk(size_bytes=MIB, storage="nfs"),))
    one = QemuDriver(setup.settings("one", uids="200000-200007"))
    two = QemuDriver(setup.settings("two", uids="300000-300007"))
    await one.open()
    await two.open()
    try:
        await one.create(order)
        await one.start("a")
        await one.send("a", await two.await_landing(order))
        assert uid_of_process(setup, "a", "two") in range(300_000, 300_008)
        assert (setup.shared / "a-disk0.qcow2").stat().st_uid == uid_of_process(setup, "a", "two")
        await one.delete("a")
        await two.stop("a", grace_s=0)
        await two.resize("a", setup.order("a", 2, disks=(Disk(size_bytes=2 * MIB, storage="nfs"),)))
        await two.start("a")
        assert await power_of(two, "a") == "running"
    finally:
        await one.close()
        await two.close()


@needs_landlock
@pytest.mark.parametrize("is_named_by", ["blockdev", "header"])
@run_with(on_hosts)
async def test_running_qemu_opens_no_file_that_a_disk_could_name(setup, driver, /, is_named_by):
    """Even a file that everybody may read: the disk's header may have been rewritten after the check."""

    secret, planted = setup.folder / "secret", setup.folder / "one" / "vms" / "a" / "run" / "planted.qcow2"
    await driver.create(setup.order("a", disks=(Disk(size_bytes=MIB),)))
    await driver.start("a")
    make = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", f"data_file={secret},data_file_raw=on", planted, "1M"]
    subprocess.run(make, check=True)
    for path in (secret, planted):
        path.chmod(0o666)
    node = {"driver": "file", "filename": str(secret if is_named_by == "blockdev" else planted)}
    if is_named_by == "header":
        node = {"driver": "qcow2", "file": node}
    async with session(VmFolder(setup.folder / "one" / "vms" / "a").qmp, "a") as monitor:
        with pytest.raises(CommandRejectedError, match=r"secret'?: Permission denied"):
            await monitor.execute("blockdev-add", {"node-name": "planted", **node})


@needs_landlock
async def test_domain_confines_what_it_starts_and_not_the_agent(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "other").write_text("other")

    def read(name):
        return subprocess.run(["cat", tmp_path / name], capture_output=True, check=False)

    allowed = AllowedFiles(read=(tmp_path / "mine", tmp_path / "not-there"))
    assert (await in_domain(allowed, lambda: read("mine"))).stdout == b"mine"
    assert b"Permission denied" in (await in_domain(allowed, lambda: read("other"))).stderr
    assert (tmp_path / "other").read_text() == "other"
    assert read("other").stdout == b"other"


@pytest.mark.skipif(abi_version() < 4, reason="this kernel has no Landlock for the network")
@run_with(on_hosts)
async def test_running_qemu_connects_to_no_server_that_a_disk_could_name(setup, driver, /):
    """A header may name a server as well: from the host, that reaches networks that no guest reaches."""

    await driver.create(setup.order("a"))
    await driver.start("a")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        node = {"driver": "nbd", "server": {"type": "inet", "host": "127.0.0.1", "port": str(port)}}
        async with session(VmFolder(setup.folder / "one" / "vms" / "a").qmp, "a") as monitor:
            with pytest.raises(CommandRejectedError, match="Permission denied"):
                await monitor.execute("blockdev-add", {"node-name": "planted", **node})


def users(tmp_path, uids=UIDS):
    (tmp_path / "vms").mkdir(exist_ok=True)
    return VmUsers(VmUser(65534, 65534, must_switch=True), uids, tmp_path / "vms")


@needs_root
def test_uids_of_vms_on_a_host_never_meet_although_the_range_is_small(tmp_path):
    mine = users(tmp_path)
    folders = [VmFolder(tmp_path / "vms" / f"vm{number}") for number in range(len(UIDS))]
    assert {mine.make_folder(folder).uid for folder in folders} == set(UIDS)
    with pytest.raises(BlockedError, match="no uid is free for one-more in 200000-200007"):
        mine.make_folder(VmFolder(tmp_path / "vms" / "one-more"))
    assert {users(tmp_path).runner(folder).uid for folder in folders} == set(UIDS)


@needs_root
def test_uid_is_the_same_on_every_host_and_follows_a_shared_disk(tmp_path):
    for host in ("one", "two"):
        (tmp_path / host).mkdir()
    one, two = users(tmp_path / "one"), users(tmp_path / "two")
    assert (
        one.make_folder(VmFolder(tmp_path / "one" / "vms" / "a")).uid
        == two.make_folder(VmFolder(tmp_path / "two" / "vms" / "a")).uid
    )
    disk = tmp_path / "disk"
    disk.touch()
    for owner, expected in ((UIDS[3], True), (4_000, False)):
        os.chown(disk, owner, owner)
        got = one.make_folder(VmFolder(tmp_path / "one" / "vms" / "b"), [disk]).uid
        assert (got == owner) == expected
        VmFolder(tmp_path / "one" / "vms" / "b").remove()


@needs_root
def test_folder_with_a_planted_link_is_not_given_away(tmp_path):
    folder = VmFolder(tmp_path / "vms" / "a")
    users(tmp_path, None).make_folder(folder)
    secret = tmp_path / "secret"
    secret.touch()
    (folder.disks / "disk0.qcow2").symlink_to(secret)
    with pytest.raises(BlockedError, match=r"disk0\.qcow2 is no plain file"):
        users(tmp_path).settle(folder)
    assert secret.stat().st_uid == 0


@pytest.mark.parametrize("text", ["", "0-10", "900-2000", "5-4", "2000-1999", "a-b", "1000-4294967294", "9" * 5000])
def test_range_of_uids_that_cannot_be_is_rejected(text):
    with pytest.raises(InputError, match="no range of uids") as caught:
        uids_of(QemuSettings(folder=Path("/x"), uids=text))
    assert "--vm-uids FIRST-LAST" in caught.value.hint


@run_with(in_qemu_setup)
async def test_agent_that_cannot_separate_vms_says_so(setup, /):
    told: list[str] = []
    driver = QemuDriver(setup.settings(uids="none", acceleration="tcg"), log=recorded_log(told))
    await driver.open()
    await driver.close()
    assert [line for line in told if "all VMs run as one user" in line]


SQUASHED = """
import os, sys
from pathlib import Path
from hostler.agent.driver import BlockedError
from hostler.agent.drivers.machine.disk_file import create_disk, open_disk
from hostler.agent.drivers.qemu.settings import VmUser

folder, runner = Path(sys.argv[1]), VmUser(200000, 200000, must_switch=True)
os.write(create_disk(folder / "disk", runner), b"mine")
try:
    (folder / "disk").open()
except PermissionError:
    print(os.read(open_disk(folder / "disk", runner), 4), (folder / "disk").stat().st_uid)
try:
    open_disk(folder / "other", runner)
except BlockedError as error:
    print(error.message)
"""


@needs_root
def test_disk_is_opened_as_the_vm_where_storage_keeps_root_out():
    """NFS with root_squash: played by root without the right to override permissions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "other").touch(0o600)
        os.chown(folder / "other", 200_001, 200_001)
        squashed = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", sys.executable, "-c", SQUASHED]
        done = subprocess.run([*squashed, folder], capture_output=True, text=True, check=False)
        expected = ["b'mine' 200000", f"{folder / 'other'} cannot be opened: Permission denied"]
        assert done.stdout.splitlines() == expected, done.stderr
