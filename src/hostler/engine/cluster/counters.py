"""Counters of guests per domain, updated with every booking: one placement costs a few additions.

A counter has a group of guests (``terms``), a topology, and optionally a mask of eligible hosts. Each known shape has a
list of the counters that include its guests, so a booking changes exactly those. A new counter starts with the guests
that are already placed.

Invariant: after every booking, ``tallies`` equals ``recount``, which counts from the guests alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.domains import ROW, Domains, Eligibility
from hostler.engine.cluster.marks import Marks
from hostler.engine.cluster.shapes import Shape
from hostler.engine.cluster.term_index import SelectorFile, ShapeFile
from hostler.engine.cluster.terms import Counted, MatchedGuests, PortHolders, TermHolders, held_terms, multiplicity
from hostler.engine.kernels.layout import CounterColumns, Int32s, Int64s
from hostler.model import GuestSpec, Host, HostPort, Labels

__all__ = ["CounterKey", "Counters"]


_BYTES_PER_SHIFT = 160  # a pair in a list and an entry of a dictionary
# Shapes that share few slots of the cache use the same counters in turns. To keep some is cheaper than to count again.
_MOST_IDLE = 32


class CounterKey(NamedTuple):
    """The identity of a counter: the guests that it counts, the topology, and the eligible hosts."""

    counted: Counted
    topology: str
    eligibility: Eligibility | None = None


class Counters:
    """All counters of one cluster, as rows of two tables: guests and eligible hosts by domain."""

    def __init__(self, rows: int) -> None:
        self.domains = Domains(rows)
        self.namespaces: dict[str, Labels] = {}
        self.labels_version = 0  # changes with the labels of namespaces
        self.version = 0  # changes when counters come or go, so that programs of shapes are made again
        self.terms_version = 0  # changes with whom shapes ask about: held terms, ports, labels of namespaces
        self._number: dict[CounterKey, int] = {}
        self._keys: list[CounterKey | None] = []
        self._users: list[int] = []
        self._idle: dict[int, None] = {}  # counters without users, the one that is dropped next first
        self._free: list[int] = []
        self._known: dict[int, Shape] = {}
        self._shifts: dict[int, list[tuple[int, int]]] = {}  # shape to (counter, by how much)
        self._shift_count = 0
        self.placed: dict[int, dict[int, int]] = {}  # shape to row to guests
        self._holders: dict[TermHolders | PortHolders, dict[int, None]] = {}  # to the shapes that have them
        self._shape_file = ShapeFile()
        self._held_file: SelectorFile[TermHolders] = SelectorFile()
        self._held_order: dict[TermHolders, str] = {}  # what held terms are sorted by
        self._counter_file: SelectorFile[CounterKey] = SelectorFile()
        self._counter_of: dict[TermHolders | PortHolders, dict[CounterKey, None]] = {}
        self._shifters: dict[int, dict[int, None]] = {}  # counter to the shapes that it counts
        self._topologies: dict[str, int] = {}  # how many counters use each
        self._eligibilities: dict[Eligibility, int] = {}
        self._guests: Int32s = np.zeros((8, rows), dtype=np.int32)
        self._hosts: Int32s = np.zeros((8, rows), dtype=np.int32)
        self._topology: Int32s = np.zeros(8, dtype=np.int32)
        self._mask: Int32s = np.full(8, -1, dtype=np.int32)
        self._total: Int64s = np.zeros(8, dtype=np.int64)

    # -- counters --------------------------------------------------------------------------------------------------

    def acquire(self, key: CounterKey, hosts: list[Host | None], marks: Marks) -> int:
        """Return a counter's number; a new counter is filled. The caller must ``release`` it."""
        number = self._number.get(key)
        if number is None:
            number = self._add(key, hosts, marks)
        elif not self._users[number]:
            del self._idle[number]
        self._users[number] += 1
        return number

    def release(self, number: int) -> None:
        """Drop one user of a counter; a counter without users is kept for a while and stays up to date."""
        self._users[number] -= 1
        if self._users[number]:
            return
        self._idle[number] = None
        if len(self._idle) > _MOST_IDLE:
            self._drop(next(iter(self._idle)))

    def _drop(self, number: int) -> None:
        """Delete an unused counter."""
        del self._idle[number]
        key = self._keys[number]
        assert key is not None
        del self._number[key]
        self._keys[number] = None
        self._free.append(number)
        self._unfile(key)
        for shape in self._shifters.pop(number, ()):
            shifts = self._shifts.get(shape)
            if shifts is not None:
                self._shift_count -= len(shifts)
                shifts[:] = [shift for shift in shifts if shift[0] != number]
                self._shift_count += len(shifts)
        self.version += 1

    def _file(self, key: CounterKey) -> None:
        """Index a counter by the guests that it may count."""
        self._topologies[key.topology] = self._topologies.get(key.topology, 0) + 1
        if key.eligibility is not None:
            self._eligibilities[key.eligibility] = self._eligibilities.get(key.eligibility, 0) + 1
        if isinstance(key.counted, MatchedGuests):
            self._counter_file.add(key.counted.terms[0].selector, key)
        else:
            self._counter_of.setdefault(key.counted, {})[key] = None

    def _unfile(self, key: CounterKey) -> None:
        """Remove a counter from the index."""
        self._topologies[key.topology] -= 1
        if not self._topologies[key.topology]:
            del self._topologies[key.topology]
            if key.topology != ROW:
                self.domains.drop_topology(key.topology)
        if key.eligibility is not None:
            self._eligibilities[key.eligibility] -= 1
            if not self._eligibilities[key.eligibility]:
                del self._eligibilities[key.eligibility]
                self.domains.drop_mask(key.eligibility)
        if isinstance(key.counted, MatchedGuests):
            self._counter_file.remove(key.counted.terms[0].selector, key)
        else:
            keys = self._counter_of[key.counted]
            del keys[key]
            if not keys:
                del self._counter_of[key.counted]

    def _may_count(self, spec: GuestSpec) -> Iterator[CounterKey]:
        """Return the counters that may count guests of a shape, each once."""
        yield from self._counter_file.candidates(spec.labels)
        for own in self._own(spec):
            yield from self._counter_of.get(own, ())

    def _may_be_counted(self, counted: Counted) -> list[int]:
        """Return the known shapes whose guests a counter may count."""
        if isinstance(counted, MatchedGuests):
            return self._shape_file.candidates(counted.terms[0].selector)
        return list(self._holders.get(counted, ()))

    def count(self, number: int, row: int) -> int:
        """Return how many guests a counter has in the domain of a row, -1 if the row is in no domain."""
        domain = int(self.domains.topology[self._topology[number], row])
        return int(self._guests[number, domain]) if domain >= 0 else -1

    def total(self, number: int) -> int:
        """Return how many guests a counter has in all domains."""
        return int(self._total[number])

    def least(self, number: int, min_domains: int) -> int:
        """Return the lowest count over the domains with eligible hosts; 0 if there are fewer than ``min_domains``."""
        counts = self._guests[number][self._hosts[number] > 0]
        return int(counts.min()) if len(counts) >= max(min_domains, 1) else 0

    def counts(self, number: int, rows: int) -> Int64s:
        """Return what ``count`` returns for each of the first rows."""
        domains = self.domains.topology[self._topology[number], :rows]
        counts: Int64s = np.where(domains >= 0, self._guests[number][domains], -1).astype(np.int64)
        return counts

    def least_elsewhere(self, number: int, min_domains: int, rows: int) -> Int64s:
        """Return for each of the first rows what ``least`` would be if its own domain had any number of guests.

        That is the lowest count over the other domains with eligible hosts, or 0 if there are fewer domains than
        ``min_domains``.
        """
        eligible = np.flatnonzero(self._hosts[number] > 0)
        if len(eligible) < max(min_domains, 1):
            return np.zeros(rows, dtype=np.int64)
        counts = self._guests[number][eligible].astype(np.int64)
        first = int(np.argmin(counts))
        others = np.delete(counts, first)
        second = int(others.min()) if len(others) else np.iinfo(np.int64).max
        domains = self.domains.topology[self._topology[number], :rows]
        elsewhere: Int64s = np.where(domains == eligible[first], second, int(counts[first])).astype(np.int64)
        return elsewhere

    def guests_near(self, number: int, row: int) -> Iterator[tuple[int, int]]:
        """Return (shape, row) of the guests that a counter has in the domain of a row."""
        domains = self.domains.topology[self._topology[number]]
        for shape in self._shifters.get(number, ()):
            rows = self.placed.get(shape, {})
            yield from ((shape, other) for other in rows if domains[other] == domains[row])

    # -- shapes ----------------------------------------------------------------------------------------------------

    def shifts_of(self, shape: Shape) -> list[tuple[int, int]]:
        """Return the counters that a guest of a shape changes, with how much each changes."""
        if self._known.get(shape.number) is not shape:
            self.forget(shape.number)
            self._learn(shape)
        return self._shifts[shape.number]

    def _learn(self, shape: Shape) -> None:
        number, spec = shape.number, shape.spec
        self._known[number] = shape
        self._shape_file.add(spec.labels, number)
        for own in self._own(spec):
            holders = self._holders.setdefault(own, {})
            if not holders:
                self._note_terms()
                if isinstance(own, TermHolders):
                    self._held_file.add(own.term.selector, own)
                    self._held_order[own] = repr(own)
            holders[number] = None
        self._shifts[number] = []
        for key in self._may_count(spec):
            times = multiplicity(key.counted, spec, self.namespaces)
            if times:
                self._add_shift(number, self._number[key], times)

    def _note_terms(self) -> None:
        self.terms_version += 1
        self.version += 1

    def _add_shift(self, shape: int, counter: int, times: int) -> None:
        self._shifts[shape].append((counter, times))
        self._shift_count += 1
        self._shifters.setdefault(counter, {})[shape] = None

    @staticmethod
    def _own(spec: GuestSpec) -> Iterator[TermHolders | PortHolders]:
        """Return the terms and ports that guests of a shape have, each once."""
        return iter(dict.fromkeys((*held_terms(spec), *(PortHolders(port) for port in spec.ports))))

    def terms_held_about(self, spec: GuestSpec) -> list[TermHolders]:
        """Return the terms of known shapes about guests of a shape, in an order that depends on the terms alone."""
        held = [h for h in self._held_file.candidates(spec.labels) if h.term.matches(spec, self.namespaces)]
        return sorted(held, key=self._held_order.__getitem__) if len(held) > 1 else held

    def ports_in_use(self) -> list[HostPort]:
        """Return the ports of known shapes."""
        return [own.port for own in self._holders if isinstance(own, PortHolders)]

    def forget(self, shape: int) -> None:
        """Forget a shape whose number will be reused."""
        known = self._known.pop(shape, None)
        if known is None:
            return
        self._shape_file.remove(known.spec.labels, shape)
        self._shift_count -= len(self._shifts[shape])
        for counter, _ in self._shifts.pop(shape):
            self._shifters[counter].pop(shape, None)
        for own in self._own(known.spec):
            holders = self._holders[own]
            del holders[shape]
            if not holders:
                del self._holders[own]
                self._note_terms()
                if isinstance(own, TermHolders):
                    self._held_file.remove(own.term.selector, own)
                    del self._held_order[own]

    # -- bookings and hosts ----------------------------------------------------------------------------------------

    def shift(self, shape: Shape, row: int, by: int) -> None:
        """Count a guest of a shape on a row (``by`` 1), or stop counting it (-1)."""
        self.note(shape.number, row, by)
        self._count(shape, row, by)

    def note(self, shape: int, row: int, by: int) -> None:
        """Record the row of a guest of a shape; the kernel has changed the counters itself."""
        rows = self.placed.setdefault(shape, {})
        left = rows.get(row, 0) + by
        if left:
            rows[row] = left
        else:
            del rows[row]
            if not rows:
                del self.placed[shape]

    def _count(self, shape: Shape, row: int, by: int) -> None:
        for number, times in self.shifts_of(shape):
            self._shift_one(number, row, by * times)

    def _shift_one(self, number: int, row: int, by: int) -> None:
        domain = self.domains.topology[self._topology[number], row]
        mask = self._mask[number]
        if domain >= 0 and (mask < 0 or self.domains.mask[mask, row]):
            self._guests[number, domain] += by
            self._total[number] += by

    def lift_host(self, row: int, host: Host, guests: Iterable[Shape]) -> None:
        """Take a host and its guests out of all counts."""
        if not self._keys:
            return
        for shape in guests:
            self._count(shape, row, -1)
        self._count_host(row, -1)
        self.domains.leave(row, host)

    def set_host(self, row: int, host: Host, marks: Marks, guests: Iterable[Shape]) -> None:
        """Add a host and its guests to all counts."""
        if not self._keys:
            return
        self.domains.enter(row, host, marks)
        self._fit()
        self._count_host(row, 1)
        for shape in guests:
            self._count(shape, row, 1)

    def _count_host(self, row: int, by: int) -> None:
        for number in self._number.values():
            domain = self.domains.topology[self._topology[number], row]
            mask = self._mask[number]
            if domain >= 0 and (mask < 0 or self.domains.mask[mask, row]):
                self._hosts[number, domain] += by

    def name_namespace(self, name: str, labels: Labels) -> None:
        """Store a namespace's labels, and recount every counter that selects namespaces."""
        if self.namespaces.get(name, ()) == labels:
            return
        if labels:
            self.namespaces[name] = labels
        else:
            self.namespaces.pop(name, None)
        self.labels_version += 1
        for shape in list(self._known.values()):
            self.forget(shape.number)
            self.shifts_of(shape)
        for number in self._number.values():
            self._guests[number] = 0
            self._total[number] = 0
            self._fill(number)
        self._note_terms()

    # -- for kernels, forks and tests ------------------------------------------------------------------------------

    def columns(self) -> CounterColumns:
        """Return the arrays for a kernel."""
        return CounterColumns(
            self.domains.topology, self.domains.mask, self._topology, self._mask, self._guests, self._hosts,
            self._total,
        )  # fmt: skip

    @property
    def size_bytes(self) -> int:
        """Return the memory of the counts and of the index of shapes."""
        return self._guests.nbytes + self._hosts.nbytes + _BYTES_PER_SHIFT * self._shift_count

    def shrink(self) -> None:
        """Drop all counters and free the memory of the tables; no counter may be in use.

        A copy has counters that only the original's cache knew. They are dropped too.
        """
        self._idle = dict.fromkeys(self._number.values())
        for number in list(self._idle):
            self._drop(number)
        self._keys, self._users, self._free = [None], [0], [0]
        rows = self.domains.width
        self._guests = np.zeros((8, rows), dtype=np.int32)
        self._hosts = np.zeros((8, rows), dtype=np.int32)
        self._topology = np.zeros(8, dtype=np.int32)
        self._mask = np.full(8, -1, dtype=np.int32)
        self._total = np.zeros(8, dtype=np.int64)

    def fit(self, rows: int) -> None:
        """Make room for so many host rows."""
        self.domains.fit(rows)
        self._fit()

    def copy(self) -> Counters:
        """Return an independent copy."""
        twin = Counters.__new__(Counters)
        twin.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray):
                setattr(twin, name, value.copy())
        twin.domains = self.domains.copy()
        twin.namespaces = self.namespaces.copy()
        twin._number, twin._keys = self._number.copy(), self._keys.copy()
        twin._users, twin._free, twin._idle = self._users.copy(), self._free.copy(), self._idle.copy()
        twin._known = self._known.copy()
        twin._shifts = {shape: shifts.copy() for shape, shifts in self._shifts.items()}
        twin._holders = {own: shapes.copy() for own, shapes in self._holders.items()}
        twin._shape_file = self._shape_file.copy()
        twin._held_file = self._held_file.copy()
        twin._held_order = self._held_order.copy()
        twin._counter_file = self._counter_file.copy()
        twin._counter_of = {own: keys.copy() for own, keys in self._counter_of.items()}
        twin._shifters = {counter: shapes.copy() for counter, shapes in self._shifters.items()}
        twin._topologies = self._topologies.copy()
        twin._eligibilities = self._eligibilities.copy()
        twin.placed = {shape: rows.copy() for shape, rows in self.placed.items()}
        return twin

    def recount(self, specs: Mapping[int, GuestSpec]) -> dict[CounterKey, dict[int, int]]:
        """Count every counter from the guests alone; tests compare the result with ``tallies``."""
        result: dict[CounterKey, dict[int, int]] = {}
        for key, number in self._number.items():
            tally = result[key] = {}
            for shape, rows in self.placed.items():
                times = multiplicity(key.counted, specs[shape], self.namespaces)
                for row, guests in rows.items():
                    domain = int(self.domains.topology[self._topology[number], row])
                    mask = self._mask[number]
                    if times and domain >= 0 and (mask < 0 or self.domains.mask[mask, row]):
                        tally[domain] = tally.get(domain, 0) + times * guests
        return result

    def tallies(self) -> dict[CounterKey, dict[int, int]]:
        """Return the value of every counter, by domain."""
        return {
            key: {int(d): int(self._guests[number, d]) for d in np.flatnonzero(self._guests[number])}
            for key, number in self._number.items()
        }

    # -- internals -------------------------------------------------------------------------------------------------

    def _add(self, key: CounterKey, hosts: list[Host | None], marks: Marks) -> int:
        rows = np.array([row for row, host in enumerate(hosts) if host is not None], dtype=np.int64)
        topology = self.domains.topology_of(key.topology, hosts)
        mask = -1 if key.eligibility is None else self.domains.mask_of(key.eligibility, marks, rows)
        number = self._free.pop() if self._free else len(self._keys)
        if number == len(self._keys):
            self._keys.append(None)
            self._users.append(0)
        self._keys[number] = key
        self._number[key] = number
        self._fit()
        self._topology[number] = topology
        self._mask[number] = mask
        self._guests[number] = 0
        self._hosts[number] = 0
        self._total[number] = 0
        domain = self.domains.topology[topology, rows]
        counts = (domain >= 0) & (self.domains.mask[mask, rows] != 0 if mask >= 0 else True)
        self._hosts[number] = np.bincount(domain[counts], minlength=self._hosts.shape[1])
        self._file(key)
        for shape in self._may_be_counted(key.counted):
            times = multiplicity(key.counted, self._known[shape].spec, self.namespaces)
            if times:
                self._add_shift(shape, number, times)
        self._fill(number)
        self.version += 1
        return number

    def _fill(self, number: int) -> None:
        """Count the guests that are already placed."""
        for shape in self._shifters.get(number, ()):
            times = next(times for counter, times in self._shifts[shape] if counter == number)
            for row, guests in self.placed.get(shape, {}).items():
                self._shift_one(number, row, times * guests)

    def _fit(self) -> None:
        """Make the tables large enough for the counters and the domains."""
        counters, width = max(len(self._keys), 1), self.domains.width
        held = self._guests.shape
        if counters <= held[0] and width <= held[1]:
            return
        shape = (max(held[0], 2 * counters) if counters > held[0] else held[0], max(held[1], width))
        for name, fill in (("_guests", 0), ("_hosts", 0)):
            grown = np.full(shape, fill, dtype=np.int32)
            grown[: held[0], : held[1]] = getattr(self, name)
            setattr(self, name, grown)
        for name, fill in (("_topology", 0), ("_mask", -1), ("_total", 0)):
            old = getattr(self, name)
            longer = np.full(shape[0], fill, dtype=old.dtype)
            longer[: len(old)] = old
            setattr(self, name, longer)


def row_counter(counted: Counted) -> CounterKey:
    """Return the key of the counter that counts a group of guests host by host, whatever the hosts' labels."""
    return CounterKey(counted, ROW)
