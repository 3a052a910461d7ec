"""A database file is one process's, by whatever name it is reached, and SQLite does not notice the locks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.control.store import open_database
from hostler.control.store.backends.process_lock import ProcessLock
from hostler.control.store.errors import DatabaseInUseError
from hostler.control.store.history import log
from hostler.errors import InputError

OPEN = """
import sys
from hostler.control.store import open_database
from hostler.errors import HostlerError
try:
    open_database(sys.argv[1]).close()
except HostlerError as error:
    print(error.code, error.message)
"""


def opened_elsewhere(path: Path) -> str:
    """Let another process open a database; return what refused it."""
    command = [sys.executable, "-c", OPEN, f"sqlite:///{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_hard_link_does_not_get_around_the_lock(tmp_path: Path) -> None:
    first = open_database(f"sqlite:///{tmp_path / 'real.db'}")
    os.link(tmp_path / "real.db", tmp_path / "twin.db")
    assert opened_elsewhere(tmp_path / "twin.db").startswith("database_in_use ")
    first.close()


def test_a_new_name_does_not_get_around_the_lock(tmp_path: Path) -> None:
    first = open_database(f"sqlite:///{tmp_path / 'old.db'}")
    (tmp_path / "old.db").rename(tmp_path / "new.db")
    assert opened_elsewhere(tmp_path / "new.db").startswith("database_in_use ")
    (tmp_path / "new.db").rename(tmp_path / "old.db")
    first.close()


def test_a_file_of_two_names_is_refused_even_when_nobody_uses_it(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path / 'real.db'}").close()
    os.link(tmp_path / "real.db", tmp_path / "twin.db")
    with pytest.raises(InputError, match="2 names") as caught:
        open_database(f"sqlite:///{tmp_path / 'twin.db'}")
    assert "samefile" in caught.value.hint
    (tmp_path / "twin.db").unlink()
    open_database(f"sqlite:///{tmp_path / 'real.db'}").close()


def test_sqlite_works_under_the_process_lock(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'real.db'}"
    for count in (1, 2, 3):
        database = open_database(url)
        database.submit(lambda c: log.append(c, [log.NewEntry(at_ns=1, kind="note", body=b"x")])).result(30)
        assert database.read_now(log.head) == count
        database.close()
    assert opened_elsewhere(tmp_path / "real.db") == ""


def test_who_is_refused_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "real.db"
    path.touch()
    first = ProcessLock(path)
    with pytest.raises(DatabaseInUseError, match=str(os.getpid())):
        ProcessLock(path)
    first.release()
    first.release()
    ProcessLock(path).release()
