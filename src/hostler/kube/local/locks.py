"""File locks that end with the process that holds them. Used for builds and for each cluster."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hostler.errors import ConflictError

__all__ = ["hold_lock"]

_TICK_S = 0.05


@contextmanager
def hold_lock(path: Path, *, patience_s: float, busy: str, report: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock; ``busy`` is reported if another process has it. Yields the file's descriptor.

    A process that inherits the descriptor holds the lock too, until it closes it.
    """
    handle = _try_lock(path)
    deadline = time.monotonic() + patience_s
    if handle is None:
        report(busy)
    while handle is None:
        if time.monotonic() > deadline:
            raise ConflictError(
                f"{path} has been locked by another process for {patience_s:.0f} s", hint="wait for it, and try again"
            )
        time.sleep(_TICK_S)
        handle = _try_lock(path)
    try:
        yield handle
    finally:
        os.close(handle)


def _try_lock(path: Path) -> int | None:
    """Take the lock, or return None; a file that was removed meanwhile is no lock any more."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists() and path.stat().st_ino == os.fstat(handle).st_ino:
            return handle
    except BlockingIOError:
        pass
    except FileNotFoundError:
        pass
    os.close(handle)
    return None
