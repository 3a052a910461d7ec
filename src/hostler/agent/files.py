"""Files that are whole or not there, whoever dies while they are written; and what has to survive a power cut.

Each is written beside its place and renamed into it. Used for records, credentials, leases and pulses, and by drivers.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["force_folder", "write_durably", "write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file by a new one; after a power cut it may be empty or the old one."""
    new = _beside(path)
    new.write_bytes(content)
    new.rename(path)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file by a new one that only its owner may read; after a power cut it is the old one or the new one."""
    new = _beside(path)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def force_folder(folder: Path) -> None:
    """Make durable which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".new")
