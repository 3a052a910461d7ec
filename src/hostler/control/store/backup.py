"""Backup and restore: one file, made while the service runs, checked before it counts.

Of the embedded database a copy is made by SQLite's own backup (a consistent snapshot, whatever is written meanwhile),
then opened and checked: its pages, its references, its revision, and that the log has no gap. Of PostgreSQL its own
tools make it (``postgres_backup``). What is restored is read row by row before it counts, and its numbers begin anew
(``renumbering``), because agents have seen newer numbers than the backup has.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from hostler.control.store.backup_files import check_not_of_postgres, file_beside, make_folder, new_file, sync
from hostler.control.store.bodies import Readers, check_bodies
from hostler.control.store.contents import BackupReport, check_contents, check_no_triggers
from hostler.control.store.database import database_url
from hostler.control.store.errors import BackupError
from hostler.control.store.process_lock import ProcessLock
from hostler.control.store.renumbering import begin_anew
from hostler.control.store.sqlite import check_regular, sqlite_path

__all__ = ["BackupReport", "backup", "place_of", "restore", "restore_in_place", "verify"]

# All pages in one step: between steps a writer would make the copy begin anew, and readers do not hinder writers.
_PAGES = -1
NOTHING: Readers = {}


def backup(url: str, target: Path) -> BackupReport:
    """Copy the database to a new file, while others use it; the file appears only when it is whole and checked."""
    found = database_url(url)
    if found.get_backend_name() != "sqlite":
        from hostler.control.store import postgres_backup

        return postgres_backup.backup(found, target)
    source = _existing(found)
    with new_file(target) as copy:
        _copy(source, copy)
        report = verify(copy)
    return msgspec.structs.replace(report, path=str(target))


def restore(source: Path, url: str, *, is_forced: bool = False, readers: Readers = NOTHING) -> BackupReport:
    """Put a backup in the place of the database, which nobody may use; an existing one only if forced.

    What rows hold must be something that ``readers`` can read; without one it must be whole.
    """
    found = database_url(url)
    if found.get_backend_name() != "sqlite":
        from hostler.control.store import postgres_backup

        return postgres_backup.restore(source, found, is_forced=is_forced, now_ms=_now_ms(), readers=readers)
    target = sqlite_path(found)
    check_regular(target)
    verify(source)
    _verify_rows(source, readers)
    make_folder(target.parent)
    lock = ProcessLock(target)
    try:
        if target.exists() and target.stat().st_size and not is_forced:
            hint = "move it away, or say that it may be replaced"
            raise BackupError(f"{target} exists and would be replaced", hint=hint)
        with file_beside(target) as copy:
            _copy(source, copy)
            report = verify(copy)
            _begin_anew(copy)
            _settle(target)
            copy.replace(target)
        sync(target.parent)
    finally:
        lock.release()
    return msgspec.structs.replace(report, path=str(target))


def restore_in_place(url: str, *, readers: Readers = NOTHING) -> BackupReport:
    """Check a database that was restored by other means, and let it count anew; nobody may use it meanwhile."""
    found = database_url(url)
    if found.get_backend_name() != "sqlite":
        from hostler.control.store import postgres_backup

        return postgres_backup.restore_in_place(found, now_ms=_now_ms(), readers=readers)
    target = _existing(found)
    lock = ProcessLock(target)
    try:
        report = verify(target)
        _verify_rows(target, readers)
        _begin_anew(target)
    finally:
        lock.release()
    return report


def verify(path: Path) -> BackupReport:
    """Check a backup of SQLite from end to end; BackupError says what is wrong with it."""
    if not path.is_file():
        raise BackupError(f"{path} does not exist", hint="name a file that a backup made")
    check_not_of_postgres(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return _checked(connection, path)
    except sqlite3.Error as error:
        raise BackupError(f"{path} is not a backup: {error}", hint="take another backup") from error


def place_of(url: str) -> str:
    """Say which database a URL means, without a password, also where nobody named one."""
    found = database_url(url)
    return str(sqlite_path(found)) if found.get_backend_name() == "sqlite" else found.render_as_string()


def _checked(connection: sqlite3.Connection, path: Path) -> BackupReport:
    def first(query: str) -> Sequence[Any]:
        row = connection.execute(query).fetchone()
        if row is None:
            raise BackupError(f"{path} is not a backup: it has no rows that each has", hint="take another backup")
        return tuple(row)

    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        raise BackupError(f"{path} is damaged: {'; '.join(found)}", hint="take another backup")
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise BackupError(f"{path} has rows that refer to nothing", hint="take another backup")
    return check_contents(first, str(path)).report(str(path), path.stat().st_size)


def _verify_rows(path: Path, readers: Readers) -> None:
    """Check what only a restore has to be sure of: rows can be read, and nothing runs that is not ours.

    A backup is made all the same: of a database that is damaged it is better than none.
    """
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        check_no_triggers([str(row[0]) for row in triggers], str(path))
        check_bodies(connection.execute, str(path), readers)


def _existing(url: URL) -> Path:
    path = sqlite_path(url)
    if not path.is_file():
        raise BackupError(f"{path} does not exist", hint="name the database that the service uses by --database-url")
    return path


def _copy(source: Path, target: Path) -> None:
    """Copy a database to a file of one piece, on disk when this returns."""
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new, pages=_PAGES)
            new.execute("PRAGMA journal_mode=DELETE")  # no files beside it
    except sqlite3.Error as error:
        where = f"{source} cannot be copied to {target.parent}"
        raise BackupError(f"{where}: {error}", hint="check the disk and the file") from error
    sync(target)


def _begin_anew(path: Path) -> None:
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)
    try:
        with engine.begin() as connection:
            begin_anew(connection, _now_ms())
    except (SQLAlchemyError, msgspec.DecodeError) as error:
        raise BackupError(f"the backup cannot be renumbered: {error}", hint="take another backup") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000  # noqa: TID251 - numbers begin at wall time


def _settle(target: Path) -> None:
    """Fold the old database's write-ahead log into it: left behind, it would be taken for that of the new one."""
    if target.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(target)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for suffix in ("-wal", "-shm", "-journal"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
