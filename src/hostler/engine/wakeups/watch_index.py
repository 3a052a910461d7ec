"""Which waiting pairs depend on which guests, so that a placement is checked only for the pairs it may concern."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.engine.cluster.counters import Counters
from hostler.engine.cluster.shapes import Shape
from hostler.engine.cluster.terms import Counted, Namespaces, PortHolders, ResolvedTerm, multiplicity, resolve
from hostler.engine.policy.peer_rules import PeerOptions, watched_guests
from hostler.engine.state.queue import WaitKey
from hostler.model import GuestSpec

__all__ = ["WatchIndex"]

# Entries of what is derived: guests come and go with ever other terms while the same pairs wait.
_MAX_COUNTS = 100_000
_MAX_MEANT = 10_000


class WatchIndex:
    """The waiting pairs by the groups of guests that they depend on."""

    def __init__(self) -> None:
        self._watches: dict[WaitKey, tuple[Counted, ...]] = {}
        self._spec: dict[WaitKey, GuestSpec] = {}
        self._watchers: dict[Counted, dict[WaitKey, None]] = {}
        self._counts: dict[tuple[Counted, int], tuple[Shape, bool]] = {}  # whether a shape is watched; derived
        self._meant: dict[ResolvedTerm, set[WaitKey]] = {}  # the pairs that a term is about; derived
        self._labels_seen = -1  # the labels of namespaces by which it was derived

    def add(self, key: WaitKey, shape: Shape, options: PeerOptions) -> None:
        """Add a pair."""
        self._spec[key] = shape.spec
        self._watches[key] = watched_guests(shape.spec, options)
        for counted in self._watches[key]:
            self._watchers.setdefault(counted, {})[key] = None
        self._meant.clear()

    def remove(self, key: WaitKey) -> None:
        """Remove a pair."""
        self._spec.pop(key, None)
        for counted in self._watches.pop(key, ()):
            keys = self._watchers[counted]
            keys.pop(key, None)
            if not keys:
                del self._watchers[counted]
        self._meant.clear()

    def pairs_concerned(self, moved: Iterable[Shape], counters: Counters) -> set[WaitKey]:
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
            if isinstance(counted, PortHolders):
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
