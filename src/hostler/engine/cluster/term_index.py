"""An index of terms by labels: which terms may select which shapes, without trying all pairs.

A selector that requires certain values of a label can only match guests that have one of them, so it is filed under
those values. Selectors that require no value are tried against every guest. The counters use three such indexes: shapes
by their labels, held terms and counters by what they select.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from hostler.model import Labels, Selector

__all__ = ["SelectorFile", "ShapeFile"]

T = TypeVar("T", bound=Hashable)

Pair = tuple[str, str]


def wanted_pairs(selector: Selector) -> list[Pair] | None:
    """Return label values such that every matching guest has one of them; None if there are no such values."""
    for expression in selector.expressions:
        if expression.operator == "In":
            return [(expression.key, value) for value in expression.values]
    return None


class SelectorFile(Generic[T]):
    """Items that select guests by labels."""

    def __init__(self) -> None:
        self._by_pair: dict[Pair, dict[T, None]] = {}
        self._others: dict[T, None] = {}

    def add(self, selector: Selector | None, item: T) -> None:
        """File an item under its selector; an item without a selector selects no guest."""
        if selector is None:
            return
        pairs = wanted_pairs(selector)
        if pairs is None:
            self._others[item] = None
        for pair in pairs or ():
            self._by_pair.setdefault(pair, {})[item] = None

    def remove(self, selector: Selector | None, item: T) -> None:
        """Remove an item."""
        if selector is None:
            return
        self._others.pop(item, None)
        for pair in wanted_pairs(selector) or ():
            held = self._by_pair.get(pair, {})
            held.pop(item, None)
            if not held:
                self._by_pair.pop(pair, None)

    def candidates(self, labels: Labels) -> Iterator[T]:
        """Return the items that may select a guest with these labels, each once."""
        found = dict(self._others)
        for pair in labels:
            found.update(self._by_pair.get(pair, {}))
        return iter(found)

    def copy(self) -> SelectorFile[T]:
        """Return an independent copy."""
        twin: SelectorFile[T] = SelectorFile()
        twin._by_pair = {pair: items.copy() for pair, items in self._by_pair.items()}
        twin._others = self._others.copy()
        return twin


class ShapeFile:
    """Shapes by their labels."""

    def __init__(self) -> None:
        self._by_pair: dict[Pair, dict[int, None]] = {}
        self._all: dict[int, None] = {}

    def add(self, labels: Labels, shape: int) -> None:
        """File a shape."""
        self._all[shape] = None
        for pair in labels:
            self._by_pair.setdefault(pair, {})[shape] = None

    def remove(self, labels: Labels, shape: int) -> None:
        """Remove a shape."""
        self._all.pop(shape, None)
        for pair in labels:
            held = self._by_pair.get(pair, {})
            held.pop(shape, None)
            if not held:
                self._by_pair.pop(pair, None)

    def candidates(self, selector: Selector | None) -> list[int]:
        """Return the shapes that a selector may match."""
        if selector is None:
            return []
        pairs = wanted_pairs(selector)
        if pairs is None:
            return list(self._all)
        found: dict[int, None] = {}
        for pair in pairs:
            found.update(self._by_pair.get(pair, {}))
        return list(found)

    def copy(self) -> ShapeFile:
        """Return an independent copy."""
        twin = ShapeFile()
        twin._by_pair = {pair: shapes.copy() for pair, shapes in self._by_pair.items()}
        twin._all = self._all.copy()
        return twin
