"""Backup and restore: one file, made while the service runs, and checked before it counts.

SQLite's own backup copies the embedded database: a consistent snapshot, even during writes. The copy is then opened and
checked: pages, references, revision, and that the log has no gaps. PostgreSQL is backed up by its own tools
(``postgres_backup``). A restore fills a scratch file, reads it row by row, renumbers it (``restored_numbers``, because
agents have seen newer numbers), limits access to it (``restored_access``), and renames it.

Invariant: until that rename the old database is whole, and after it the new one is.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from hostler.control.store import schema
from hostler.control.store.backends.process_lock import ProcessLock
from hostler.control.store.backends.sqlite import check_regular, sqlite_path
from hostler.control.store.backup.contents import (
    BackupReport,
    Readers,
    check_bodies,
    check_columns,
    check_contents,
    check_no_triggers,
)
from hostler.control.store.backup.restored_access import (
    AccessChoices,
    AccessReport,
    AccessSnapshot,
    limit_access,
    read_access,
)
from hostler.control.store.backup.restored_numbers import renumber_database
from hostler.control.store.database import database_url
from hostler.control.store.errors import BackupError, TargetExistsError
from hostler.control.store.files import (
    check_not_of_postgres,
    make_folder,
    new_file,
    remove_scratch_files,
    scratch_file,
    sync,
)

__all__ = ["BackupReport", "backup", "check_exists", "place_of", "restore", "restore_in_place", "verify"]

# All pages in one step: between steps a writer would make the copy start again, and readers do not hinder writers.
_PAGES = -1
NOTHING: Readers = {}
NO_CHOICES = AccessChoices()


def backup(url: str, target: Path) -> BackupReport:
    """Copy the database to a new file while it is in use; the file appears only when it is complete and checked."""
    found = database_url(url)
    if found.get_backend_name() != "sqlite":
        from hostler.control.store.backup import postgres_backup

        return postgres_backup.backup(found, target)
    source = _existing(found)
    with new_file(target) as copy:
        _copy(source, copy)
        report = verify(copy)
    return msgspec.structs.replace(report, path=str(target))


def restore(
    source: Path,
    url: str,
    *,
    is_forced: bool = False,
    readers: Readers = NOTHING,
    access: AccessChoices = NO_CHOICES,
    tell: Callable[[str], None] = lambda line: None,
) -> BackupReport:
    """Replace the database, which must not be in use, by a backup; an existing database only if forced.

    All rows must be readable by ``readers``; without readers they must be intact. A crash at any moment leaves the old
    database or the new one. ``tell`` gets a line if the lease of a dead leader has to run out first.
    """
    found = database_url(url)
    if found.get_backend_name() != "sqlite":
        from hostler.control.store.backup import postgres_backup

        return postgres_backup.restore(
            source, found, is_forced=is_forced, now_ns=_now_ns(), readers=readers, access=access, tell=tell
        )
    target = sqlite_path(found)
    check_regular(target)
    verify(source)
    make_folder(target.parent)
    lock = ProcessLock(target)
    try:
        remove_scratch_files(target)
        is_there = target.exists() and target.stat().st_size > 0
        if is_there and not is_forced:
            hint = "move it away, or say that it may be replaced"
            raise TargetExistsError(f"{target} exists and would be replaced", hint=hint)
        replaced = _read_replaced(target) if is_there else None
        with scratch_file(target) as copy:
            _copy(source, copy)
            report = verify(copy)
            _verify_rows(copy, readers, str(source))
            limited = _begin_anew(copy, replaced, access, source.name)
            report = msgspec.structs.replace(report, path=str(target), access=limited)
            _settle(target)
            copy.replace(target)
        sync(target.parent)
    finally:
        lock.release()
    return report


def restore_in_place(
    url: str,
    *,
    readers: Readers = NOTHING,
    access: AccessChoices = NO_CHOICES,
    tell: Callable[[str], None] = lambda line: None,
) -> BackupReport:
    """Check a database that was restored by other means, and renumber it; it must not be in use."""
    found = database_url(url)
    if found.get_backend_name() != "sqlite":
        from hostler.control.store.backup import postgres_backup

        return postgres_backup.restore_in_place(found, now_ns=_now_ns(), readers=readers, access=access, tell=tell)
    target = _existing(found)
    lock = ProcessLock(target)
    try:
        report = verify(target)
        _verify_rows(target, readers, str(target))
        return msgspec.structs.replace(report, access=_begin_anew(target, None, access, ""))
    finally:
        lock.release()


def verify(path: Path) -> BackupReport:
    """Check a SQLite backup completely; BackupError says what is wrong."""
    if not path.is_file():
        raise BackupError(f"{path} does not exist", hint="name a file that a backup made")
    check_not_of_postgres(path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return _checked(connection, path)
    except sqlite3.Error as error:
        raise BackupError(f"{path} is not a backup: {error}", hint="take another backup") from error


def check_exists(url: str) -> None:
    """Reject a missing file, because opening it would create an empty one; BackupError."""
    found = database_url(url)
    if found.get_backend_name() == "sqlite":
        _existing(found)


def place_of(url: str) -> str:
    """Return the place of the database of a URL, without a password; the default's if the URL is empty."""
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


def _verify_rows(path: Path, readers: Readers, where: str) -> None:
    """Check what only a restore needs: rows can be read, and there are no triggers.

    A backup is made without this check, because a backup of a damaged database is better than none.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            check_no_triggers([str(row[0]) for row in triggers], where)
            check_columns(connection.execute, where)
            check_bodies(connection.execute, where, readers)
    except sqlite3.Error as error:  # text that is no UTF-8 is one
        raise BackupError(f"{where} is damaged: {error}", hint="take another backup") from error


def _existing(url: URL) -> Path:
    path = sqlite_path(url)
    if not path.is_file():
        raise BackupError(f"{path} does not exist", hint="name the database that the service uses by --database-url")
    return path


def _copy(source: Path, target: Path) -> None:
    """Copy a database to a single file, on disk when this returns."""
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


def _begin_anew(path: Path, replaced: AccessSnapshot | None, access: AccessChoices, source: str) -> AccessReport:
    """Renumber a database and limit access to it, in one transaction."""
    now_ns = _now_ns()
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)
    try:
        with engine.begin() as connection:
            schema.upgrade(connection)
            renumber_database(connection, now_ns // 1_000_000)
            return limit_access(connection, replaced, access, source, now_ns)
    except (SQLAlchemyError, msgspec.DecodeError) as error:
        raise BackupError(f"the backup cannot be renumbered: {error}", hint="take another backup") from error
    finally:
        engine.dispose()


def _read_replaced(target: Path) -> AccessSnapshot | None:
    """Return what the replaced database accepts; None if it cannot tell, because it is damaged or foreign."""
    engine = create_engine(URL.create("sqlite", database=str(target)), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            return read_access(connection)
    except (SQLAlchemyError, BackupError):
        return None
    finally:
        engine.dispose()


def _now_ns() -> int:
    return time.time_ns()  # noqa: TID251 - numbers begin at wall time


def _settle(target: Path) -> None:
    """Copy the old write-ahead log into the old database: otherwise it would be applied to the new one.

    The old database stays intact until it is replaced: if the copy fails, nothing is changed. A damaged database need
    not be kept intact.
    """
    if target.exists() and target.stat().st_size:
        try:
            with closing(sqlite3.connect(target)) as old:
                old.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.Error as error:
            if not str(getattr(error, "sqlite_errorname", "")).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
                hint = "nothing that exists was changed; check the disk and who uses the file"
                raise BackupError(f"{target} cannot be replaced: {error}", hint=hint) from error
    for suffix in ("-wal", "-shm", "-journal"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
