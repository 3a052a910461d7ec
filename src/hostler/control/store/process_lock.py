"""One process per SQLite file: a lock beside it that the kernel takes back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from hostler.control.store.errors import DatabaseInUseError
from hostler.errors import InputError

__all__ = ["ProcessLock"]


class ProcessLock:
    """Held from construction to ``release``; DatabaseInUseError names the process that has it."""

    def __init__(self, database: Path) -> None:
        path = database.with_name(f"{database.name}.lock")
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            hint = "choose a folder that this user can write to"
            raise InputError(f"{path} cannot be opened: {problem}", hint=hint) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 32).decode(errors="replace").strip()
            self._close()
            who = f"process {holder}" if holder.isdigit() else "another process"
            hint = "stop that process first, or use PostgreSQL, which several processes can share"
            raise DatabaseInUseError(f"{database} is in use by {who}", hint=hint) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have it; the file stays, since removing it would race with whoever just opened it."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
