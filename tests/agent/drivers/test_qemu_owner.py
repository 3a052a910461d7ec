"""Files beside disks on shared storage, where others write too: no link leads the agent anywhere."""

from __future__ import annotations

import os

import pytest

from hostler.agent.driver import BlockedError
from hostler.agent.drivers.qemu.disks import check_plain, read_owner, remove_owner, write_owner


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "secret").write_text("mine")
    return tmp_path / "shared" / "a-disk0.qcow2"


def test_the_host_that_was_written_is_read_until_it_lets_go(disk):
    assert read_owner(disk) == ""
    for host in ("one", "two"):
        write_owner(disk, host)
        assert read_owner(disk) == host
    assert [path.name for path in disk.parent.iterdir()] == [f"{disk.name}.host"]
    remove_owner(disk)
    assert list(disk.parent.iterdir()) == []
    remove_owner(disk)


@pytest.mark.parametrize("name", ["{}.host", "{}.host.one.new"])
def test_nothing_is_written_through_a_link(name, disk):
    secret = disk.parent.parent / "secret"
    (disk.parent / name.format(disk.name)).symlink_to(secret)
    write_owner(disk, "one")
    assert secret.read_text() == "mine"
    assert read_owner(disk) == "one"


def test_nothing_is_written_through_a_second_name_of_a_file(disk):
    secret = disk.parent.parent / "secret"
    os.link(secret, disk.with_name(f"{disk.name}.host"))
    write_owner(disk, "one")
    assert secret.read_text() == "mine"


def test_nothing_is_read_through_a_link_nor_waited_for(disk):
    beside = disk.with_name(f"{disk.name}.host")
    beside.symlink_to(disk.parent.parent / "secret")
    with pytest.raises(BlockedError):
        read_owner(disk)
    beside.unlink()
    os.mkfifo(beside)
    with pytest.raises(BlockedError):
        read_owner(disk)


def test_a_link_in_a_disks_place_is_no_disk(disk):
    check_plain(disk)
    disk.symlink_to(disk.parent.parent / "nowhere")
    with pytest.raises(BlockedError, match="no plain file"):
        check_plain(disk)
