"""Ids of VMs, operations and requests: random UUIDs, made many at a time.

Reading random bytes gives the interpreter up. A thread that computes then has it for a while, at every request and in
the middle of transactions. So bytes for many ids are read at once.
"""

from __future__ import annotations

import os
import threading
import uuid

__all__ = ["new_id"]

_TOGETHER = 256
_SIZE = 16
_lock = threading.Lock()
_ready: list[str] = []


def new_id() -> str:
    """Return an id that nobody had before. From any thread."""
    with _lock:
        if not _ready:
            block = os.urandom(_SIZE * _TOGETHER)
            _ready.extend(uuid.UUID(bytes=block[at : at + _SIZE], version=4).hex for at in range(0, len(block), _SIZE))
        return _ready.pop()
