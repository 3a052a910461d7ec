"""Places that are not as they should be: each is refused with its cause, and nothing is left there."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.control.store import open_database
from hostler.control.store.backup.backup import backup, verify
from hostler.control.store.errors import BackupError, DatabaseInUseError
from hostler.errors import InputError

_MOUNT = """
cd "$0" && mkdir roomy small fixed && touch fixed/control.db && mount -t tmpfs -o size=1m none small &&
mount --bind fixed fixed && mount -o remount,ro,bind fixed && exec "$@"
"""
_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Mount disks that only one process sees, and return what it tells of them."""
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT]
    trial = [*alone, str(tmp_path_factory.mktemp("trial")), "true"]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    folder = tmp_path_factory.mktemp("places")
    words = [*alone, str(folder), sys.executable, "-m", "tests.control.store.cramped_backups", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


@pytest.mark.parametrize(
    ("where", "code", "words"),
    [
        ("backup to a full disk", "backup", "small: database or disk is full"),
        ("restore to a full disk", "backup", "small: database or disk is full"),
        ("backup to a fixed folder", "backup", "fixed cannot be written to: read-only file system"),
        ("restore to a fixed folder", "backup", "fixed/new cannot be written to: read-only file system"),
        ("restore in a fixed folder", "invalid_input", "cannot be opened: read-only file system"),
        ("open in a fixed folder", "invalid_input", "cannot be opened: read-only file system"),
    ],
)
def test_where_nothing_can_be_written_is_said_and_why(told, where, code, words):
    assert told[where].startswith(f"{code}: ")
    assert told[where].endswith(words)


def test_what_failed_leaves_nothing_on_a_full_disk(told):
    assert told["left"] == []


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Give the URL of a database that exists."""
    open_database(sqlite_url).close()
    return sqlite_url


def fail(error: int):
    """Return a call of the system that fails in this way."""

    def call(*_arguments: object, **_more: object) -> None:
        raise OSError(error, os.strerror(error))

    return call


def test_links_in_a_circle_lead_to_no_database(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(InputError, match="circle leads to no file"):
        open_database(f"sqlite:///{tmp_path / 'circle'}")


def test_a_home_of_nobody_leads_to_no_database():
    with pytest.raises(InputError, match="leads to no file"):
        open_database("sqlite:///~nobody-of-this-name/control.db")


def test_a_file_behind_a_link_is_backed_up_and_the_link_is_not_replaced(url, tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "control.db")
    backup(f"sqlite:///{tmp_path / 'link.db'}", tmp_path / "copy.db")
    for live in ("control.db", "link.db"):
        with pytest.raises(BackupError, match="exists already"):
            backup(url, tmp_path / live)


def test_a_name_that_is_too_long_for_a_backup_is_refused(url, tmp_path):
    with pytest.raises(BackupError, match="file name too long"):
        backup(url, tmp_path / ("x" * 300))


def test_where_files_cannot_be_locked_nobody_else_is_blamed(sqlite_url, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", fail(errno.ENOLCK))
    with pytest.raises(InputError, match="cannot be locked: no locks available") as caught:
        open_database(sqlite_url)
    assert not isinstance(caught.value, DatabaseInUseError)
    assert "local file system" in caught.value.hint


def test_a_backup_needs_no_hard_links_and_replaces_no_file_without_them(url, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", fail(errno.EPERM))
    backup(url, tmp_path / "copy.db")
    assert verify(tmp_path / "copy.db").seq == 0
    with pytest.raises(BackupError, match="exists already"):
        backup(url, tmp_path / "copy.db")


def test_a_file_that_appears_meanwhile_is_not_replaced_without_hard_links(url, tmp_path, monkeypatch):
    def appear(_path: Path, target: Path) -> None:
        target.write_bytes(b"mine")
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", appear)
    with pytest.raises(BackupError, match="exists already"):
        backup(url, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == b"mine"


def test_a_backup_that_does_not_reach_the_disk_does_not_count(url, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fail(errno.EIO))
    with pytest.raises(BackupError, match="does not reach the disk"):
        backup(url, tmp_path / "copy.db")
    assert [path for path in tmp_path.iterdir() if "copy" in path.name] == []


def test_a_file_system_that_has_nothing_to_wait_for_is_no_obstacle(url, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fail(errno.EINVAL))
    backup(url, tmp_path / "copy.db")
    assert verify(tmp_path / "copy.db").seq == 0
