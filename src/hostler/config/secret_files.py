"""Files that hold secrets: what may be read as one. Used for the keys of clients and the tokens of agents."""

from __future__ import annotations

import stat
from pathlib import Path

from hostler.errors import InputError

__all__ = ["read_private"]


def read_private(file: Path, most: int, *, option: str, shown: str) -> str:
    """Read at most so many letters of a file that only its owner may read, or of a pipe; OSError, ValueError."""
    mode = file.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise InputError(f"{option}: {shown} is no file", hint="name a file that only you may read")
    if stat.S_IMODE(mode) & 0o077:
        raise InputError(f"{option}: others than its owner may use {shown}", hint=f"chmod 600 {shown}")
    with file.open(encoding="ascii") as opened:
        return opened.read(most)
