"""Storages are known again by their marks, and an empty mount point is not taken for empty storage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostler.agent.drivers.machine.storage_marks import FolderMark, StorageMarks


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    found = {"": tmp_path / "vms", "nfs": tmp_path / "nfs"}
    for path in found.values():
        path.mkdir()
    return found


def marks_in(places: dict[str, Path]) -> dict[str, FolderMark]:
    return {name: FolderMark(path, name) for name, path in places.items()}


def marks_of(places: dict[str, Path], **options: bool) -> StorageMarks:
    return StorageMarks(places[""].parent / "marks", marks_in(places), **options)


def unmount(path: Path) -> Path:
    """Leave an empty directory in the place of a storage, as a file system does that is unmounted."""
    away = path.with_name(f"{path.name}-away")
    path.rename(away)
    path.mkdir()
    return away


def mount(path: Path, away: Path) -> None:
    path.rename(path.with_name(f"{path.name}-under"))
    away.rename(path)


@pytest.mark.parametrize("name", ["", "nfs"])
def test_unmounted_storage_is_unavailable_until_mounted_again(places, name):
    marks = marks_of(places)
    marks.take_up()
    assert marks.unavailable() == {}
    away = unmount(places[name])
    assert list(marks_of(places).unavailable()) == [name]
    assert not list(places[name].iterdir())
    mount(places[name], away)
    assert marks_of(places).unavailable() == {}


@pytest.mark.parametrize("name", ["", "nfs"])
def test_storage_that_does_not_exist_is_unavailable(places, name):
    marks_of(places).take_up()
    unmount(places[name])
    places[name].rmdir()
    assert "is gone" in marks_of(places).unavailable()[name]


def test_other_vm_folder_is_not_accepted(places, tmp_path):
    """An older copy, or another host's folder, has another mark: its VMs are not those of this agent."""
    marks_of(places).take_up()
    unmount(places[""])
    (places[""] / "host").write_text("another")
    assert "not the storage that was there before" in marks_of(places).unavailable()[""]
    assert marks_of(places).first("") != "another"


def test_replaced_shared_storage_is_accepted_once(places):
    """A host that started before its storage was mounted marked the mount point: the real mark replaces that one."""
    marks = marks_of(places)
    marks.take_up()
    under = (places["nfs"] / ".hostler-storage").read_text()
    (places["nfs"] / ".hostler-storage").write_text("real")
    assert marks.unavailable() == {}
    (places["nfs"] / ".hostler-storage").write_text(under)
    assert list(marks.unavailable()) == ["nfs"]


def test_hosts_agree_on_the_mark_of_shared_storage(places, tmp_path):
    marks_of(places).take_up()
    other = tmp_path / "other"
    other.mkdir()
    second = StorageMarks(tmp_path / "second", marks_in({"": other, "nfs": places["nfs"]}))
    second.take_up()
    assert second.first("nfs") == marks_of(places).first("nfs")
    assert second.first("") != marks_of(places).first("")


def test_host_of_an_older_version_is_not_marked_while_unmounted(places):
    """It has VMs and no marks: a folder without a mark is an empty mount point, since older versions wrote it."""
    marks = marks_of(places, has_vms=True)
    marks.take_up()
    assert list(marks.unavailable()) == [""]
    (places[""] / "host").write_text("of the older version")
    assert marks.unavailable() == {}
    assert marks.first("") == "of the older version"


@contextmanager
def open_pipe(path: Path) -> Iterator[None]:
    """Put a pipe there that is open for writing: reading it finds nothing yet, and no end."""
    os.mkfifo(path)
    both_ends = os.open(path, os.O_RDWR)
    try:
        yield
    finally:
        os.close(both_ends)


@contextmanager
def put(make: Callable[[Path], object], path: Path) -> Iterator[None]:
    make(path)
    yield


PLANTED = {
    "directory": lambda path: put(Path.mkdir, path),
    "pipe": open_pipe,
    "link": lambda path: put(lambda link: link.symlink_to("/etc/hostname"), path),
    "device": lambda path: put(lambda link: link.symlink_to("/dev/zero"), path),
    "bytes": lambda path: put(lambda file: file.write_bytes(b"\xff\xfe"), path),
    "control": lambda path: put(lambda file: file.write_bytes(b"a\0\x1b[2Jb"), path),
    "empty": lambda path: put(Path.touch, path),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_planted_mark_makes_storage_unavailable(places, plant):
    """Each host that shares a storage may put anything in the mark's place; no agent may fail by that."""
    marks = marks_of(places)
    marks.take_up()
    (places["nfs"] / ".hostler-storage").unlink()
    files = len(list(Path("/proc/self/fd").iterdir()))
    with plant(places["nfs"] / ".hostler-storage"):
        for _ in range(5):
            assert list(marks.unavailable()) == ["nfs"]
            assert "nfs" in marks_of(places).unavailable()
    assert len(list(Path("/proc/self/fd").iterdir())) == files
