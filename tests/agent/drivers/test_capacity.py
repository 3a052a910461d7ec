"""What real hosts offer to VMs: less than all memory, and of the disk what nobody else has filled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.agent.drivers.machine.capacity import disk_offered, memory_offered

GIB = 2**30
MIB = 2**20


@pytest.mark.parametrize(
    ("physical", "offered"),
    [(256 * GIB, 240 * GIB), (16 * GIB, 15 * GIB), (8 * GIB, 7 * GIB), (GIB, GIB // 2), (0, 0)],
    ids=["large", "at the least", "small", "tiny", "none"],
)
def test_sixteenth_of_memory_is_kept_back_within_bounds(physical, offered):
    assert memory_offered(physical) == offered


class Still:
    """A filesystem to which nobody writes meanwhile."""

    f_bavail, f_frsize, f_blocks = 1000, 4096, 5000


FREE = 1000 * 4096


@pytest.fixture
def vms(tmp_path, monkeypatch) -> Path:
    """The folder of VMs, on such a filesystem."""
    monkeypatch.setattr(os, "statvfs", lambda path: Still)
    folder = tmp_path / "vms"
    (folder / "a" / "disks").mkdir(parents=True)
    return folder


def test_a_disk_offers_what_is_free_and_what_vms_have_written(vms):
    assert disk_offered(vms.parent, vms) == FREE
    disk = vms / "a" / "disks" / "disk0"
    disk.write_bytes(b"x" * MIB)
    (vms.parent / "image").write_bytes(b"x" * MIB)
    written = disk.stat().st_blocks * 512
    assert written >= MIB
    assert disk_offered(vms.parent, vms) == FREE + written


def test_a_disk_of_a_vm_counts_with_what_it_has_written_not_with_its_size(vms):
    with (vms / "a" / "disks" / "disk0").open("wb") as file:
        file.truncate(2**40)
    assert disk_offered(vms.parent, vms) < FREE + MIB
