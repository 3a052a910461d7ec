"""Whom waiting pairs look at, so that a placement or a departure is only looked into by those whom it may concern.

A pair watches the guests that its own terms, spreading and ports are about. The other way round, a guest that moved may
hold anti-affinity against a pair.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.engine.asks import AskOptions, watched
from hostler.engine.counters import Counters
from hostler.engine.queue import WaitKey
from hostler.engine.shapes import Shape
from hostler.engine.terms import Counted, Namespaces, ResolvedTerm, WithPort, multiplicity, resolve
from hostler.model import GuestSpec

__all__ = ["Watchers"]

# Entries of what is derived: guests come and go with ever other terms while the same pairs wait.
_MAX_COUNTS = 100_000
_MAX_MEANT = 10_000


class Watchers:
    """The waiting pairs by whom they watch."""

    def __init__(self) -> None:
        self._watches: dict[WaitKey, tuple[Counted, ...]] = {}
        self._spec: dict[WaitKey, GuestSpec] = {}
        self._watchers: dict[Counted, dict[WaitKey, None]] = {}
        self._counts: dict[tuple[Counted, int], tuple[Shape, bool]] = {}  # whether a shape is watched; derived
        self._meant: dict[ResolvedTerm, set[WaitKey]] = {}  # the pairs that a term is about; derived
        self._labels_seen = -1  # the labels of namespaces by which it was derived

    def add(self, key: WaitKey, shape: Shape, options: AskOptions) -> None:
        """Let a pair watch."""
        self._spec[key] = shape.spec
        self._watches[key] = watched(shape.spec, options)
        for counted in self._watches[key]:
            self._watchers.setdefault(counted, {})[key] = None
        self._meant.clear()

    def remove(self, key: WaitKey) -> None:
        """Let a pair watch no longer."""
        self._spec.pop(key, None)
        for counted in self._watches.pop(key, ()):
            keys = self._watchers[counted]
            keys.pop(key, None)
            if not keys:
                del self._watchers[counted]
        self._meant.clear()

    def concerned(self, moved: Iterable[Shape], counters: Counters) -> set[WaitKey]:
        """Return the pairs that placements or departures of these shapes may concern."""
        is_full = len(self._counts) > _MAX_COUNTS or len(self._meant) > _MAX_MEANT
        if self._labels_seen != counters.labels_version or is_full:
            self._labels_seen = counters.labels_version
            self._counts.clear()
            self._meant.clear()
        namespaces = counters.namespaces
        found: set[WaitKey] = set()
        for shape in moved:
            for counted, keys in self._watchers.items():
                if self._is_counted(counted, shape, namespaces):
                    found.update(keys)
            for term in shape.spec.anti_affinity:
                found.update(self._meant_by(resolve(term, shape.spec.namespace), namespaces))
        return found

    def _is_counted(self, counted: Counted, shape: Shape, namespaces: Namespaces) -> bool:
        known = self._counts.get((counted, shape.number))
        if known is None or known[0] is not shape:
            if isinstance(counted, WithPort):
                counts = any(port.conflicts(counted.port) for port in shape.spec.ports)
            else:
                counts = multiplicity(counted, shape.spec, namespaces) > 0
            known = self._counts[counted, shape.number] = (shape, counts)
        return known[1]

    def _meant_by(self, term: ResolvedTerm, namespaces: Namespaces) -> set[WaitKey]:
        meant = self._meant.get(term)
        if meant is None:
            meant = self._meant[term] = {k for k, spec in self._spec.items() if term.matches(spec, namespaces)}
        return meant
