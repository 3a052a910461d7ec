"""Backup and restore of the embedded database: one file, made while the service runs, checked before it counts.

A copy is made by SQLite's own backup (a consistent snapshot, whatever is written meanwhile), then opened and checked:
its pages, its references, its revision, and that the log has no gap. PostgreSQL has tools of its own.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from hostler.control.store import schema
from hostler.control.store.database import database_url
from hostler.control.store.errors import BackupError, NewerDatabaseError
from hostler.control.store.process_lock import ProcessLock
from hostler.control.store.sqlite import sqlite_path

__all__ = ["BackupReport", "backup", "restore", "verify"]

# All pages in one step: between steps a writer would make the copy begin anew, and readers do not hinder writers.
_PAGES = -1


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a good backup holds."""

    path: str
    size_bytes: int
    revision: str
    seq: int
    vms: int
    hosts: int


def backup(url: str, target: Path) -> BackupReport:
    """Copy the database to a new file, while others use it; the file appears only when it is whole and checked."""
    source = _file_of(url, "pg_dump --format=custom")
    if not source.is_file():
        raise BackupError(f"{source} does not exist", hint="name the database that the service uses")
    if target.exists():
        raise BackupError(f"{target} exists already", hint="name a new file")
    copy = _copy(source, target)
    try:
        report = verify(copy)
        os.link(copy, target)  # unlike a rename, it never replaces a file that appeared meanwhile
    except FileExistsError as error:
        raise BackupError(f"{target} exists already", hint="name a new file") from error
    finally:
        copy.unlink()
    _sync_folder(target.parent)
    return msgspec.structs.replace(report, path=str(target))


def restore(source: Path, url: str, *, is_forced: bool = False) -> BackupReport:
    """Put a backup in the place of the database, which nobody may use; an existing one only if forced."""
    target = _file_of(url, "pg_restore")
    verify(source)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = ProcessLock(target)
    try:
        if target.exists() and target.stat().st_size and not is_forced:
            hint = "move it away, or say that it may be replaced"
            raise BackupError(f"{target} exists and would be replaced", hint=hint)
        copy = _copy(source, target)
        try:
            report = verify(copy)
            _settle(target)
            copy.replace(target)
        finally:
            copy.unlink(missing_ok=True)
        _sync_folder(target.parent)
    finally:
        lock.release()
    return msgspec.structs.replace(report, path=str(target))


def verify(path: Path) -> BackupReport:
    """Check a backup from end to end; BackupError says what is wrong with it."""
    if not path.is_file():
        raise BackupError(f"{path} does not exist", hint="name a file that a backup made")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return _checked(connection, path)
    except sqlite3.Error as error:
        raise BackupError(f"{path} is not a backup: {error}", hint="take another backup") from error


def _checked(connection: sqlite3.Connection, path: Path) -> BackupReport:
    def one(query: str) -> int:
        return int(connection.execute(query).fetchone()[0])

    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        raise BackupError(f"{path} is damaged: {'; '.join(found)}", hint="take another backup")
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise BackupError(f"{path} has rows that refer to nothing", hint="take another backup")
    revision = str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])
    if not schema.is_known(revision):
        hint = "use the program that made it, or a newer one"
        raise NewerDatabaseError(f"{path} is at revision {revision}, which is newer than this program", hint=hint)
    seq, forgotten = connection.execute("SELECT seq, forgotten FROM log_head").fetchone()
    count, first, last = connection.execute(
        "SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM log"
    ).fetchone()
    whole = (seq - forgotten, forgotten + 1, seq) if seq > forgotten else (0, 0, 0)
    if (count, first, last) != whole:
        raise BackupError(f"the log in {path} has gaps: {count} entries from {first} to {last}, its head is {seq}")
    return BackupReport(
        path=str(path),
        size_bytes=path.stat().st_size,
        revision=revision,
        seq=seq,
        vms=one("SELECT count(*) FROM vms WHERE deleted_ns IS NULL"),
        hosts=one("SELECT count(*) FROM hosts WHERE deleted_ns IS NULL"),
    )


def _file_of(url: str, tool: str) -> Path:
    found = database_url(url)
    if found.get_backend_name() != "sqlite":
        raise BackupError("PostgreSQL is backed up and restored with its own tools", hint=f"use {tool}")
    return sqlite_path(found)


def _copy(source: Path, target: Path) -> Path:
    """Copy a database to a new file of one piece beside the target, on disk when this returns."""
    try:
        file, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # for its owner only
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise BackupError(f"{target.parent} cannot be written to: {problem}", hint="name another folder") from error
    path = Path(name)
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(path)) as new,
        ):
            old.backup(new, pages=_PAGES)
            new.execute("PRAGMA journal_mode=DELETE")  # no files beside it
        os.fsync(file)
    except sqlite3.Error as error:
        path.unlink()
        raise BackupError(f"{source} cannot be copied: {error}", hint="check the disk and the file") from error
    finally:
        os.close(file)
    return path


def _settle(target: Path) -> None:
    """Fold the old database's write-ahead log into it: left behind, it would be taken for that of the new one."""
    if target.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(target)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for suffix in ("-wal", "-shm", "-journal"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
