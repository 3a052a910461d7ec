"""What this process wrote to the log last: whoever follows the log here need not read it from the database again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from hostler.control.store.log import Entry

__all__ = ["Recent"]

_MOST = 2000
_MOST_BYTES = 8 * 2**20


class Recent:
    """The newest entries of ours between which nobody else wrote; for any thread."""

    def __init__(self, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0  # of all bodies

    def add(self, entries: Sequence[Entry]) -> None:
        """Take in what one transaction wrote, after its COMMIT."""
        with self._lock:
            if self._entries and entries[0].seq != self._entries[-1].seq + 1:
                self._clear()
            self._entries.extend(entries)
            self._bytes += sum(len(entry.body) for entry in entries)
            while len(self._entries) > self._most or self._bytes > self._most_bytes:
                self._bytes -= len(self._entries.popleft().body)

    def forget(self) -> None:
        """Leave all to the database: a server that took over may lack what the one before had committed."""
        with self._lock:
            self._clear()

    def after(self, seq: int) -> list[Entry]:
        """Return what follows a number without a gap; nothing where only the database knows what does."""
        with self._lock:
            if not self._entries or seq + 1 < self._entries[0].seq:
                return []
            found = list(takewhile(lambda entry: entry.seq > seq, reversed(self._entries)))
        return found[::-1]

    def _clear(self) -> None:
        self._entries.clear()
        self._bytes = 0
