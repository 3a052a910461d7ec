"""Files of backups: for their owner only, whole or not there, never in the place of another one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostler.control.store.errors import BackupError

__all__ = ["check_not_of_postgres", "check_not_of_sqlite", "file_beside", "new_file", "sync"]

_OF_POSTGRES = b"PGDMP"
_OF_SQLITE = b"SQLite format 3\0"


def check_not_of_postgres(path: Path) -> None:
    """Refuse a dump of PostgreSQL for what it is, where a backup of the embedded database is wanted."""
    if _beginning(path).startswith(_OF_POSTGRES):
        hint = "restore it to a PostgreSQL database: --database-url postgresql://user@host/database"
        raise BackupError(f"{path} is a dump of PostgreSQL, and the database is SQLite", hint=hint)


def check_not_of_sqlite(path: Path) -> None:
    """Refuse a backup of the embedded database for what it is, where a dump of PostgreSQL is wanted."""
    if _beginning(path).startswith(_OF_SQLITE):
        hint = "restore it to a file: --database-url sqlite:////path/to/file.db, or without --database-url"
        raise BackupError(f"{path} is a backup of SQLite, and the database is PostgreSQL", hint=hint)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(_OF_SQLITE))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise BackupError(f"{path} cannot be read: {problem}", hint="check the path and its owner") from error


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Give an empty file to fill, which becomes the target when the block ends well, unless that exists by then."""
    taken = BackupError(f"{target} exists already", hint="name a new file")
    if target.exists():
        raise taken
    with file_beside(target) as path:
        yield path
        try:
            os.link(path, target)  # unlike a rename, it never replaces a file that appeared meanwhile
        except FileExistsError as error:
            raise taken from error
    sync(target.parent)


@contextmanager
def file_beside(target: Path) -> Iterator[Path]:
    """Give an empty file in the folder of a target, which is gone after the block unless it was given a name."""
    try:
        file, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # for its owner only
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise BackupError(f"{target.parent} cannot be written to: {problem}", hint="name another folder") from error
    os.close(file)
    path = Path(name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
