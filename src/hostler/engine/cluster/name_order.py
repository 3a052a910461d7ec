"""Integers that sort like host names, so that kernels can break ties by name without strings.

Keys are spaced apart. A new name takes the middle between its neighbors; if there is none, all keys are assigned again.
The order of known names never changes, so cached choices stay valid.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

__all__ = ["NameOrder"]

_GAP = 1 << 32


class NameOrder:
    """The sorted names and their keys."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.keys: dict[str, int] = {}

    def add(self, name: str) -> bool:
        """Add a name; return whether all keys were assigned again."""
        at = bisect_left(self.names, name)
        low = self.keys[self.names[at - 1]] if at else 0
        high = self.keys[self.names[at]] if at < len(self.names) else low + 2 * _GAP
        self.names.insert(at, name)
        if high - low < 2:
            self._deal()
            return True
        self.keys[name] = (low + high) // 2
        return False

    def add_many(self, names: Iterable[str]) -> None:
        """Add many names at once and assign all keys again."""
        self.names.extend(names)
        self.names.sort()
        self._deal()

    def remove(self, name: str) -> None:
        """Forget a name."""
        del self.names[bisect_left(self.names, name)]
        del self.keys[name]

    def key_up_to(self, name: str) -> int:
        """Return the key of the last known name up to ``name`` in sort order; 0 if there is none."""
        at = bisect_right(self.names, name)
        return self.keys[self.names[at - 1]] if name and at else 0

    def copy(self) -> NameOrder:
        """Return an independent copy."""
        twin = NameOrder()
        twin.names = self.names.copy()
        twin.keys = self.keys.copy()
        return twin

    def _deal(self) -> None:
        self.keys = {name: (i + 1) * _GAP for i, name in enumerate(self.names)}
