"""The SQLite backend: one file, one process, one writer; readers see snapshots while it writes (WAL).

``synchronous=FULL`` makes COMMIT wait for the disk, so that kill -9 or a power cut loses nothing acknowledged. Group
commit pays for that. The driver's own transaction handling is off: this module issues BEGIN.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from hostler.control.store.backends.backend import DatabaseLimits, Notifier
from hostler.control.store.backends.process_lock import ProcessLock
from hostler.control.store.errors import ForeignDatabaseError, is_full
from hostler.control.store.files import remove_scratch_files
from hostler.errors import InputError

__all__ = ["SqliteBackend", "check_regular", "sqlite_path"]

_OLDEST = (3, 35, 0)  # RETURNING
_FOLD_MS = 500  # how long writers wait for readers of the write-ahead log, once it is too long


def sqlite_path(url: URL) -> Path:
    """Return the file of a URL; a database in memory is rejected, because it would not last."""
    if not url.database or url.database == ":memory:":
        raise InputError(f"{url}: a database in memory does not last", hint="name a file: sqlite:////var/lib/x.db")
    try:
        # The lock belongs to the file, whatever links lead to it.
        return Path(url.database).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a user without a home
        hint = "name a file: sqlite:////var/lib/x.db"
        raise InputError(f"{url.database} leads to no file: {error}", hint=hint) from error


class SqliteBackend:
    """A file that only this process uses until ``close``."""

    def __init__(self, url: URL, limits: DatabaseLimits) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise InputError(f"SQLite {sqlite3.sqlite_version} is too old", hint="3.35 or newer is needed")
        self.path = sqlite_path(url)
        self.notifier = Notifier()
        self._limits = limits
        self._wal = self.path.with_name(f"{self.path.name}-wal")
        self._fold_at = limits.wal_bytes
        self._file = _make_private(self.path)
        self._lock = ProcessLock(self.path)
        remove_scratch_files(self.path)
        location = URL.create("sqlite", database=str(self.path))
        options: dict[str, Any] = {"hide_parameters": True, "connect_args": {"timeout": limits.busy_s}}
        self.writing = _engine(location, "BEGIN IMMEDIATE", limits, {**options, "poolclass": NullPool})
        pool = {"poolclass": QueuePool, "pool_size": limits.readers, "max_overflow": limits.readers}
        self.reading = _engine(location, "BEGIN", limits, {**options, **pool})

    @property
    def name(self) -> str:
        """Return the file."""
        return str(self.path)

    def place(self, connection: Connection) -> str:
        """Return the file."""
        return str(self.path)

    def lock_schema(self, connection: Connection) -> None:
        """Do nothing: the process lock and BEGIN IMMEDIATE keep other writers out."""

    def why_unopened(self, error: SQLAlchemyError) -> None:
        """Return None: opening the file has already raised its own error."""

    def announce(self, connection: Connection) -> None:
        """Do nothing: all waiters are in this process."""

    def can_commit(self, connection: Connection) -> bool:
        """Say whether the transaction is still open: some errors end it."""
        raw = connection.connection.driver_connection
        return isinstance(raw, sqlite3.Connection) and raw.in_transaction

    def after_commit(self, connection: Connection) -> None:
        """Empty the write-ahead log if it is too long.

        SQLite copies it into the file by itself, but restarts it only in a moment without readers. If reads always
        overlap, there is no such moment, and it would grow forever.
        """
        raw = connection.connection.driver_connection
        try:
            size = self._wal.stat().st_size
            if size >= self._fold_at and isinstance(raw, sqlite3.Connection):
                self._fold_at = self._limits.wal_bytes + (0 if self._has_folded(raw) else size)
        except (OSError, sqlite3.Error):
            pass  # the next write finds out what is wrong with the disk

    def _has_folded(self, raw: sqlite3.Connection) -> bool:
        """Copy the log into the file and empty it, unless a reader takes too long; new readers need not wait."""
        raw.execute(f"PRAGMA busy_timeout={_FOLD_MS}")
        try:
            is_busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            raw.execute(f"PRAGMA busy_timeout={int(self._limits.busy_s * 1000)}")
        return not is_busy

    def is_refusal(self, error: BaseException) -> bool:
        """Return True if the disk was full: then the frame that commits is incomplete.

        After any other disk error it is unknown what the next start will find in the WAL.
        """
        return is_full(error)

    def is_standby(self, connection: Connection) -> bool:
        """Return False: a file follows no other."""
        return False

    def why_gone(self) -> str:
        """Report that the file was replaced or removed: SQLite would keep writing to the one that it opened."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return f"{self.path} was removed while it was in use"
        except OSError:
            return ""  # the next write finds out what is wrong with the disk
        if (found.st_dev, found.st_ino) == self._file:
            return ""
        return f"{self.path} was replaced by another file while it was in use"

    def close(self) -> None:
        """Close everything; the last connection copies the WAL into the file."""
        self.reading.dispose()
        self.writing.dispose()
        self._lock.release()


def _make_private(path: Path) -> tuple[int, int]:
    """Make the file readable by its owner only, and return device and inode; SQLite's other files get its mode."""
    try:
        check_regular(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
        try:
            found = os.fstat(file)
            if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
                os.fchmod(file, 0o600)
            return found.st_dev, found.st_ino
        finally:
            os.close(file)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(f"{path} cannot be opened: {problem}", hint="name a file that this user can write") from error


def check_regular(path: Path) -> None:
    """Reject a device, a pipe or a folder: changing its owner would take it from its users."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no regular file", hint="name a file that this user can write, or a new one")


def _engine(url: URL, begin: str, limits: DatabaseLimits, options: dict[str, Any]) -> Engine:
    """Return an engine whose transactions begin that way."""
    engine = create_engine(url, **options)
    is_writer = begin != "BEGIN"

    @event.listens_for(engine, "connect")
    def _prepare(raw: sqlite3.Connection, _record: object) -> None:
        raw.isolation_level = None
        try:
            mode = raw.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.DatabaseError as error:
            if "not a database" not in str(error):
                raise
            hint = "name another file, or restore a backup"
            raise ForeignDatabaseError(f"{url.database} is not a database", hint=hint) from error
        if mode is None or str(mode[0]).lower() != "wal":
            hint = "put it on a local file system"
            raise InputError(f"{url.database}: SQLite cannot use a write-ahead log there", hint=hint)
        for pragma in (
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={int(limits.busy_s * 1000)}",
            f"query_only={'OFF' if is_writer else 'ON'}",
        ):
            raw.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
