"""One process per SQLite file: locks that the kernel releases when their holder dies.

A lock file beside the database names its holder. The database itself is locked too, since it may have other names: with
flock(), which does not interfere with SQLite's own fcntl() locks.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from hostler.control.store.errors import DatabaseInUseError
from hostler.errors import InputError

__all__ = ["ProcessLock"]


class ProcessLock:
    """Held from construction to ``release``; DatabaseInUseError names the process that holds it.

    Close all connections to the database before ``release``: closing any descriptor of a file drops all fcntl() locks
    of the process on it.
    """

    def __init__(self, database: Path) -> None:
        self._files: list[int] = []
        try:
            beside = self._take(database.with_name(f"{database.name}.lock"), database, os.O_RDWR | os.O_CREAT)
            if database.exists():
                _check_links(database, os.fstat(self._take(database, database, os.O_RDONLY)).st_nlink)
        except BaseException:
            self._close()
            raise
        self._beside = beside
        os.ftruncate(beside, 0)
        os.pwrite(beside, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock. The lock file stays, since removing it would race with a process that just opened it."""
        if self._files:
            os.ftruncate(self._beside, 0)
            self._close()

    def _take(self, path: Path, database: Path, flags: int) -> int:
        try:
            file = os.open(path, flags | os.O_CLOEXEC, 0o600)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            hint = "choose a folder that this user can write to"
            raise InputError(f"{path} cannot be opened: {problem}", hint=hint) from error
        self._files.append(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(file, 32).decode(errors="replace").strip()
            who = f"process {holder}" if holder.isdigit() else "another process"
            hint = "stop that process first, or use PostgreSQL, which several processes can share"
            raise DatabaseInUseError(f"{database} is in use by {who}", hint=hint) from error
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            hint = "put it on a local file system, where one process can keep others out"
            raise InputError(f"{path} cannot be locked: {problem}", hint=hint) from error
        return file

    def _close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()


def _check_links(database: Path, links: int) -> None:
    """Reject a file with several names: SQLite's write-ahead log lies beside only one of them."""
    if links > 1:
        hint = "remove the other names (find them with find -samefile), or copy the file and use the copy"
        raise InputError(f"{database} has {links} names (hard links), by which it would lose changes", hint=hint)
