"""How much of a machine is offered to VMs: the system, QEMU itself and the agent need a share.

Without this, the control plane would fill all memory with VMs, and a disk that is half full of other data. Used by
drivers of real hosts. What operators reserve or overcommit (``hostler host edit``) comes on top.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["disk_offered", "memory_offered"]

_GIB = 2**30
_KEPT_PART = 16
_BLOCK = 512  # bytes, as stat counts them whatever the filesystem has


def memory_offered(physical: int) -> int:
    """Return the memory for VMs: a sixteenth is kept back, at least 1 GiB, but never more than half."""
    return physical - min(max(physical // _KEPT_PART, _GIB), physical // 2)


def disk_offered(folder: Path, own: Path) -> int:
    """Return the disk for VMs: what is free on the filesystem of a folder, and what is there for VMs already.

    What a VM has written is booked for it: if that were left out, each disk would count twice as it fills.
    """
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize + sum(_written(own))


def _written(folder: Path) -> Iterator[int]:
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                yield Path(at, name).lstat().st_blocks * _BLOCK
            except FileNotFoundError:
                continue  # VMs come and go meanwhile
