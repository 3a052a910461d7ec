"""Room for raw scores, only for the shapes that need it.

Most shapes are scored inside the kernel without normalizing and need twelve bytes per host row. A shape with
preferences, normalized scores or a third party's scorer needs several times as much. It has an entry here while it has
a slot of the verdict cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hostler.engine.kernels.layout import Int16s, Int64s

__all__ = ["DEFAULT_BUDGET", "CacheBudget", "WideRows"]


class CacheBudget(NamedTuple):
    """The memory of each pool of the verdict cache. It decides how fast an engine is, never what it answers."""

    pool_bytes: int = 96 * 2**20
    least_entries: int = 16  # kept also where hosts are so many that they do not fit the bytes

    def entries(self, entry_bytes: int) -> int:
        """Return how many entries of a size a pool may have."""
        return max(self.least_entries, self.pool_bytes // entry_bytes)


DEFAULT_BUDGET = CacheBudget()


class WideRows:
    """A growing pool of entries: base score, normalized and outer raw scores, and local verdict of every row."""

    def __init__(self, rows: int, scorers: int, normalized: int, budget: CacheBudget = DEFAULT_BUDGET) -> None:
        self.most = budget.entries(rows * (2 + 8 * (1 + scorers + normalized)))
        self.base: Int64s = np.zeros((1, rows), dtype=np.int64)
        self.raw: Int64s = np.zeros((1, normalized, rows), dtype=np.int64)
        self.outer: Int64s = np.zeros((1, scorers, rows), dtype=np.int64)
        self.local: Int16s = np.zeros((1, rows), dtype=np.int16)
        self._free = [0]

    def claim(self) -> int:
        """Return an entry with undefined content, or -1 if all are in use."""
        if not self._free:
            held = len(self.base)
            more = min(held, self.most - held)
            if more <= 0:
                return -1
            self.base = _extend_array(self.base, more)
            self.raw = _extend_array(self.raw, more)
            self.outer = _extend_array(self.outer, more)
            self.local = np.concatenate((self.local, np.zeros((more, self.local.shape[1]), dtype=np.int16)))
            self._free = list(range(held + more - 1, held - 1, -1))
        return self._free.pop()

    def release(self, entry: int) -> None:
        """Return an entry to the pool."""
        self._free.append(entry)


def _extend_array(array: Int64s, more: int) -> Int64s:
    return np.concatenate((array, np.zeros((more, *array.shape[1:]), dtype=np.int64)))
