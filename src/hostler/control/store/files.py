"""Files of backups: private to their owner, complete or absent, and never overwriting another file."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hostler.control.store.errors import BackupError

__all__ = [
    "check_not_of_postgres", "check_not_of_sqlite", "file_beside", "make_folder", "new_file", "remove_scratch_files",
    "scratch_file", "sync",
]  # fmt: skip

_OF_POSTGRES = b"PGDMP"
_OF_SQLITE = b"SQLite format 3\0"
_SCRATCH = "restore-"


def check_not_of_postgres(path: Path) -> None:
    """Reject a PostgreSQL dump if a SQLite backup is expected."""
    if _beginning(path).startswith(_OF_POSTGRES):
        hint = "restore it to a PostgreSQL database: --database-url postgresql://user@host/database"
        raise BackupError(f"{path} is a dump of PostgreSQL, and the database is SQLite", hint=hint)


def check_not_of_sqlite(path: Path) -> None:
    """Reject a SQLite backup if a PostgreSQL dump is expected."""
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


def make_folder(folder: Path) -> None:
    """Make a folder for its owner only, unless it exists."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield an empty file that becomes the target if the block succeeds and the target does not exist by then."""
    if os.path.lexists(target):
        raise _taken(target)
    with file_beside(target) as path:
        yield path
        _name(path, target)
    sync(target.parent)


def _name(path: Path, target: Path) -> None:
    """Give a file its name, unless that name exists by now."""
    try:
        try:
            os.link(path, target)  # unlike a rename, it never replaces anything
        except FileExistsError:
            raise
        except OSError:  # file systems of memory cards, and some of networks, have no hard links
            target.touch(mode=0o600, exist_ok=False)
            path.replace(target)
    except FileExistsError as error:
        raise _taken(target) from error
    except OSError as error:
        raise _unwritable(target.parent, error) from error


def _taken(target: Path) -> BackupError:
    return BackupError(f"{target} exists already", hint="name a new file")


def _unwritable(folder: Path, error: OSError) -> BackupError:
    problem = (error.strerror or str(error)).lower()
    return BackupError(f"{folder} cannot be written to: {problem}", hint="name another folder")


@contextmanager
def scratch_file(target: Path) -> Iterator[Path]:
    """Yield an empty file to restore into, beside a database that this process has locked."""
    with file_beside(target, _SCRATCH) as path:
        yield path


def remove_scratch_files(target: Path) -> None:
    """Remove the files of a killed restore; this process must have locked the database."""
    with suppress(OSError):  # a folder that cannot be listed: what is left there does no harm
        for path in target.parent.iterdir():
            if path.name.startswith(f".{target.name}.{_SCRATCH}") and path.is_file():
                path.unlink(missing_ok=True)


@contextmanager
def file_beside(target: Path, kind: str = "") -> Iterator[Path]:
    """Yield an empty file in the folder of a target; remove it afterwards unless it was given a name."""
    try:
        file, name = tempfile.mkstemp(prefix=f".{target.name}.{kind}", dir=target.parent)  # for its owner only
    except OSError as error:
        raise _unwritable(target.parent, error) from error
    os.close(file)
    path = Path(name)
    try:
        yield path
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):  # SQLite leaves its own beside a copy that failed
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk; BackupError."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # which says that there is nothing to wait for
            problem = (error.strerror or str(error)).lower()
            raise BackupError(f"{path} does not reach the disk: {problem}", hint="check the disk") from error
    finally:
        os.close(file)
