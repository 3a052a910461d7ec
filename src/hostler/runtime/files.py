"""Files that are whole or not there, whenever the process that writes them dies; and what survives a power cut.

Each is written under another name in the same folder and renamed. Used for records, credentials, leases and pulses of
agents, results of sweeps, states of local clusters, contexts of the client, and files that commands write.

Invariant: a file under its own name is always complete. What an earlier process left under the other name is
removed and never written to, because it may be a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["new_file", "open_regular", "read_regular", "sync_folder", "write_durably", "write_file", "write_private"]

_PUBLIC = 0o666  # less the umask
_PRIVATE = 0o600


@contextmanager
def new_file(
    path: Path, *, mode: int = _PUBLIC, is_durable: bool = False, part: Path | None = None
) -> Iterator[BinaryIO]:
    """Give a stream to a new file that replaces ``path`` when the block ends well.

    ``part`` is its name until then, by default ``path`` with ``.new``: two writers of one file need different ones.
    ``is_durable``: after a power cut the file is the old one or the new one; else it may be empty.
    """
    new = part or path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(new, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Replace a file by a new one; after a power cut it may be empty or the old one."""
    with new_file(path) as file:
        file.write(content)


def write_private(path: Path, content: bytes, *, part: Path | None = None) -> None:
    """Replace a file by a new one that only its owner may read; after a power cut it may be empty or the old one."""
    with new_file(path, mode=_PRIVATE, part=part) as file:
        file.write(content)


def write_durably(path: Path, content: bytes, *, mode: int = _PRIVATE, part: Path | None = None) -> None:
    """Replace a file by a new one, by default for its owner only; after a power cut it is the old or the new one."""
    with new_file(path, mode=mode, is_durable=True, part=part) as file:
        file.write(content)


def open_regular(path: Path, flags: int, mode: int = _PRIVATE) -> int:
    """Open a regular file and return its descriptor; OSError for anything else that bears its name.

    For files that others may replace: a link is not followed, a pipe not waited for, and no device is read.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the beginning of a regular file; OSError for anything else that bears its name."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read(most_bytes)


def sync_folder(folder: Path) -> None:
    """Make durable which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
