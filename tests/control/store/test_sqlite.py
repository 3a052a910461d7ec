"""The embedded database: one process per file, for its owner only, durable."""

from __future__ import annotations

import os
import pty
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from hostler.control.store import open_database
from hostler.control.store.database import default_url
from hostler.control.store.errors import DatabaseInUseError
from hostler.errors import InputError

HOLD = """
import sys
from hostler.control.store import open_database
database = open_database(sys.argv[1])
print("open", flush=True)
input()
"""


def hold(url: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_a_second_process_is_refused_and_told_which_one_has_the_file(sqlite_url):
    with hold(sqlite_url) as other:
        with pytest.raises(DatabaseInUseError) as caught:
            open_database(sqlite_url)
        assert f"process {other.pid}" in caught.value.message
        assert "PostgreSQL" in caught.value.hint
        other.kill()


def test_links_to_the_file_do_not_get_around_that(tmp_path):
    first = open_database(f"sqlite:///{tmp_path / 'real.db'}")
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    with pytest.raises(DatabaseInUseError, match=str(os.getpid())):
        open_database(f"sqlite:///{tmp_path / 'link.db'}")
    first.close()


def test_a_process_that_was_killed_leaves_no_lock(sqlite_url):
    with hold(sqlite_url) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
    open_database(sqlite_url).close()


def test_a_database_that_was_refused_can_be_opened_later(sqlite_url):
    first = open_database(sqlite_url)
    with pytest.raises(DatabaseInUseError):
        open_database(sqlite_url)
    first.close()
    open_database(sqlite_url).close()


def test_all_its_files_are_for_their_owner_only(tmp_path):
    old = os.umask(0o000)
    try:
        database = open_database(f"sqlite:///{tmp_path / 'deep' / 'control.db'}")
    finally:
        os.umask(old)
    database.read_now(lambda connection: connection.execute(text("SELECT 1")).scalar())
    files = sorted((tmp_path / "deep").iterdir())
    assert {path.suffix for path in files} >= {".db", ".db-wal", ".lock"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700
    database.close()


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path):
    path = tmp_path / "control.db"
    open_database(f"sqlite:///{path}").close()
    path.chmod(0o644)
    open_database(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_acknowledged_is_on_disk(sqlite_url):
    database = open_database(sqlite_url)

    def settings(connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "query_only")
        return [connection.execute(text(f"PRAGMA {name}")).scalar() for name in names]

    full = 2
    assert database.submit(settings).result(30) == ["wal", full, 1, 0]
    assert database.read_now(settings) == ["wal", full, 1, 1]
    database.close()


def test_it_lives_in_the_users_state_folder_unless_told_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_url() == f"sqlite:///{tmp_path / 'hostler' / 'control.db'}"
    database = open_database()
    assert Path(database.name) == tmp_path / "hostler" / "control.db"
    assert not database.is_shared
    database.close()


def test_a_folder_in_the_way_is_an_error_with_a_hint(tmp_path):
    with pytest.raises(InputError) as caught:
        open_database(f"sqlite:///{tmp_path}")
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint


def test_a_device_is_no_database_and_keeps_its_mode():
    ours, theirs = pty.openpty()
    try:
        device = Path(os.ttyname(theirs))
        device.chmod(0o622)
        with pytest.raises(InputError, match="no regular file"):
            open_database(f"sqlite:///{device}")
        assert stat.S_IMODE(device.stat().st_mode) == 0o622
    finally:
        os.close(ours)
        os.close(theirs)
