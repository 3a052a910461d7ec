"""Whose a disk on shared storage is: a file beside it names the host that has the VM.

Others write to that folder too: VMs' user, other hosts. So nothing there is opened through a link, which could lead the
agent, perhaps root, to any file of its machine.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hostler.agent.drivers.driver import BlockedError

__all__ = ["check_plain", "read_owner", "remove_owner", "write_owner"]

_LONGEST = 256
_HINT = "somebody else put it there: look at it, then remove it"


def check_plain(disk: Path) -> None:
    """Refuse what lies in a disk's place and is no file of its own."""
    try:
        found = disk.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise BlockedError(f"{disk} is no plain file", hint=_HINT)


def read_owner(disk: Path) -> str:
    """Return the host that a disk belongs to; empty where one let go of it."""
    path = _beside(disk)
    check_plain(path)
    try:
        # It may have become something else meanwhile: a link is not followed, and a pipe not waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_LONGEST).decode(errors="replace")


def write_owner(disk: Path, host: str) -> None:
    """Name the host, in a new file that takes the place of whatever was there."""
    path = _beside(disk)
    new = path.with_name(f"{path.name}.{host}.new")
    new.unlink(missing_ok=True)  # of an agent that was killed
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w") as file:
        file.write(host)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def remove_owner(disk: Path) -> None:
    """Name no host any more."""
    _beside(disk).unlink(missing_ok=True)


def _beside(disk: Path) -> Path:
    return disk.with_name(disk.name + ".host")
