"""The columnar state of all hosts: what they may give, what is used, labels, taints and devices.

A host keeps its row while it is present; the row of a removed host is reused. Every change of a row is written to the
touch log, so that cached verdicts know which rows to judge again. Bookings from outside (facts) may exceed a host's
limit; decisions never do.

Invariant: each method that changes a row calls ``touch`` after the change, and kernels that book do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from hostler.engine.cluster.counters import Counters
from hostler.engine.cluster.holds import Hold, Holds
from hostler.engine.cluster.marks import Marks
from hostler.engine.cluster.randomness import host_key
from hostler.engine.cluster.shapes import Shape
from hostler.engine.cluster.tables import NameOrder, Tables
from hostler.engine.kernels.layout import TAGS, HostColumns, Int16s, Int32s, Int64s, TouchLog
from hostler.errors import FactError
from hostler.model import GUESTS, MAX_AMOUNT, Amounts, Host, may_give
from hostler.model.hosts import MAX_DEVICES

__all__ = ["Cluster", "LimitSet"]

_MAX_MILLI = 1_000_000  # of one device: sums over a host stay far below 2^63

LimitSet = tuple[Amounts, Amounts, bool]  # overcommit and reserve of a policy; whether a host takes one guest only


class Cluster:
    """Hosts in rows, bookings in columns."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.row_of: dict[str, int] = {}
        self.host_at: list[Host | None] = []
        self.guests_on: list[dict[str, Shape]] = []
        self.free_rows: list[int] = []
        self.order = NameOrder()
        self.marks = Marks()
        self.counters = Counters(64)
        self.holds = Holds(64)
        self.limit_sets: list[LimitSet] = [((), (), False)]
        self.layout_version = 0  # changes when arrays were replaced, so that caches size themselves again
        self._allocate(rows=64, resources=8, devices=0)
        self._log_rows: Int32s = np.zeros(4096, dtype=np.int32)
        self._log_end: Int64s = np.zeros(1, dtype=np.int64)
        self._is_logged = True

    # -- hosts -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.row_of)

    def restore(self, hosts: Sequence[Host | None], free_rows: Sequence[int]) -> None:
        """Fill an empty cluster with hosts in given rows; rows in ``free_rows`` stay empty."""
        self._reserve_rows(len(hosts))
        self.host_at = [None] * len(hosts)
        self.guests_on = [{} for _ in hosts]
        self.row_of = {host.name: row for row, host in enumerate(hosts) if host is not None}
        self.order.add_many(self.row_of)
        for row, host in enumerate(hosts):
            if host is not None:
                self._write(row, host)
        self.free_rows = list(free_rows)
        self._write_name_keys()

    def put(self, host: Host) -> int:
        """Add a host, or update the host of that name; bookings stay. Return its row."""
        self.check(host)
        known = self.row_of.get(host.name)
        row = self._new_row(host.name) if known is None else known
        if known is None:
            if self.order.add(host.name):
                self._write_name_keys()
            else:
                self._name_key[row] = self.order.keys[host.name]
        self._write(row, host)
        return row

    def put_many(self, hosts: Sequence[Host]) -> None:
        """Add or change many hosts; names are sorted once."""
        for host in hosts:
            self.check(host)
        self.tables.check_room(
            (name for host in hosts for name, _ in host.capacity),
            (device.kind for host in hosts for device in host.devices),
            (device.model for host in hosts for device in host.devices),
        )
        fresh = [host.name for host in hosts if host.name not in self.row_of]
        self._reserve_rows(len(fresh))
        for name in fresh:
            self._new_row(name)
        self.order.add_many(fresh)
        for host in hosts:
            self._write(self.row_of[host.name], host)
        self._write_name_keys()

    def remove(self, name: str) -> set[str]:
        """Remove a host; return the uids of the guests that were booked there."""
        row = self.row_of.pop(name)
        guests = set(self.guests_on[row])
        self.tables.drop_host(self.host(row))
        shapes = self.guests_on[row].values()
        self.counters.lift_host(row, self.host(row), shapes)
        for shape in shapes:
            self.counters.note(shape.number, row, -1)
        for held, _ in self.holds.on(row):
            self.holds.drop(held, row)
        self.guests_on[row] = {}
        self.host_at[row] = None
        self.order.remove(name)
        self._present[row] = 0
        self._limit[:, row] = 0
        for table in (self._used, self._guests, self._scored, self._device_left, self._device_size, self._tags):
            table[row] = 0
        self._device_kind[row] = -1
        self.marks.clear(row)
        self.free_rows.append(row)
        self.touch(row)
        return guests

    def check(self, host: Host) -> None:
        """Reject a host that no front could send, before anything changes."""
        if not host.name:
            raise FactError("a host has no name")
        if len(host.devices) > MAX_DEVICES:
            raise FactError(f"host {host.name!r} has {len(host.devices)} devices; at most {MAX_DEVICES} are supported")
        for device in host.devices:
            if not 0 < device.milli <= _MAX_MILLI:
                raise FactError(f"host {host.name!r} has a device of {device.milli} milli-units")
        if not 0 <= host.version < 2**63:
            raise FactError(f"host {host.name!r} has version {host.version}, which does not fit 64 bits")
        if not -(2**63) <= host.rank < 2**63 or not 0 <= (host.draw_key or 0) < 2**64:
            raise FactError(f"host {host.name!r} has a rank or a draw key beyond 64 bits")
        self.tables.check_room(
            (name for name, _ in host.capacity), (d.kind for d in host.devices), (d.model for d in host.devices)
        )
        for name, amount in (*host.capacity, *host.reserve, *host.taken):
            if not 0 <= amount <= MAX_AMOUNT:
                raise FactError(f"host {host.name!r} has {amount} of {name}, which is not between 0 and 2^62")
        for resource, _ in host.capacity:
            for overcommit, reserve, _ in self.limit_sets:
                may_give(host, resource, overcommit, reserve)

    def host(self, row: int) -> Host:
        """Return the host in a row."""
        host = self.host_at[row]
        if host is None:
            raise FactError(f"row {row} holds no host")
        return host

    # -- bookings --------------------------------------------------------------------------------------------------

    def why_not_book(self, row: int, shape: Shape) -> str | None:
        """Return why a booking from outside is impossible (sums beyond 2^62), or None."""
        for resource, amount in shape.amounts:
            if resource < self._used.shape[1] and int(self._used[row, resource]) + amount > MAX_AMOUNT:
                return f"more than 2^62 of {self.tables.resources.values[resource]} would be booked"
        return None

    def book(self, row: int, shape: Shape, devices: Sequence[int], uid: str) -> None:
        """Book a guest on a row and log the touch."""
        self._shift(row, shape, devices, 1)
        self.guests_on[row][uid] = shape

    def unbook(self, row: int, shape: Shape, devices: Sequence[int], uid: str) -> None:
        """Remove a guest's booking from a row and log the touch."""
        self._shift(row, shape, devices, -1)
        del self.guests_on[row][uid]

    def _shift(self, row: int, shape: Shape, devices: Sequence[int], sign: int) -> None:
        self.fit_layout()
        used = self._used
        for resource, amount in shape.amounts:
            used[row, resource] += sign * amount
        self._guests[row] = used[row, 0]
        self._scored[row, 0] += sign * shape.scored[0]
        self._scored[row, 1] += sign * shape.scored[1]
        if devices:
            at = 0
            for ask in shape.asks:
                for _ in range(ask.devices):
                    if at < len(devices) and devices[at] < self._device_left.shape[1]:
                        self._device_left[row, devices[at]] -= sign * ask.milli
                    at += 1
        if shape.tag >= 0:
            self._tags[row, shape.tag] += sign
        self.counters.shift(shape, row, sign)
        self.touch(row)

    def replace_shape(self, before: Shape, after: Shape) -> None:
        """Rebook guests of a shape by its new numbers, after names were added or released."""
        self.fit_layout()
        placed = self.counters.placed.get(before.number, {})
        if placed:
            self.counters.shifts_of(after)  # counters to come must know that there are such guests
        for row, guests in placed.items():
            for resource, amount in before.amounts:
                self._used[row, resource] -= guests * amount
            for resource, amount in after.amounts:
                self._used[row, resource] += guests * amount
            on_row = self.guests_on[row]
            for uid in [uid for uid, shape in on_row.items() if shape is before]:
                on_row[uid] = after
            self.touch(row)

    def rebook_devices(self, row: int, bookings: Iterable[tuple[Shape, Sequence[int]]]) -> None:
        """Recompute the devices' free units from all bookings of a row, after the host's devices changed."""
        self._device_left[row] = self._device_size[row]
        for shape, devices in bookings:
            at = 0
            for ask in shape.asks:
                for _ in range(ask.devices):
                    if at < len(devices) and devices[at] < self._device_left.shape[1]:
                        self._device_left[row, devices[at]] -= ask.milli
                    at += 1
        self.touch(row)

    def hold(self, name: str, hold: Hold) -> None:
        """Hold room on a row and log the touch."""
        self.fit_layout()
        self.holds.put(name, hold)
        self.touch(hold.row)

    def release_hold(self, name: str, row: int) -> None:
        """Release held room on a row."""
        if self.holds.drop(name, row):
            self.touch(row)

    def version(self, row: int) -> int:
        """Return a number that changes with every change of a row."""
        return int(self._version[row])

    def used(self, row: int, resource: int) -> int:
        """Return how much of a resource is booked on a row."""
        return int(self._used[row, resource])

    def limit(self, row: int, resource: int, limit_set: int = 0) -> int:
        """Return how much of a resource a row may give under a limit set."""
        return int(self._limit[limit_set, row, resource])

    def device_left(self, row: int) -> list[int]:
        """Return the free milli-units of the row's devices."""
        return [int(v) for v in self._device_left[row, : len(self.host(row).devices)]]

    # -- columns ---------------------------------------------------------------------------------------------------

    @contextmanager
    def unlogged(self) -> Iterator[None]:
        """Log no touches. At the end every row must be as it was, and nothing may read the touch log meanwhile."""
        before, self._is_logged = self._is_logged, False
        try:
            yield
        finally:
            self._is_logged = before

    def touch(self, row: int) -> None:
        """Log that a row changed."""
        if not self._is_logged:
            return
        end = int(self._log_end[0])
        self._version[row] += 1
        self._log_rows[end % len(self._log_rows)] = row
        self._log_end[0] = end + 1

    def rows_touched_since(self, position: int) -> Int64s | None:
        """Return the rows touched since a log position, or None if the log no longer has all of them."""
        end = int(self._log_end[0])
        if position < 0 or end - position > len(self._log_rows):
            return None
        at = np.arange(position, end) % len(self._log_rows)
        return np.unique(self._log_rows[at]).astype(np.int64)

    @property
    def log_end(self) -> int:
        """Return the position after the last touch."""
        return int(self._log_end[0])

    @property
    def rows(self) -> int:
        """Return how many rows are in use, holes included."""
        return len(self.host_at)

    @property
    def row_capacity(self) -> int:
        """Return how many rows the arrays have."""
        return int(self._present.shape[0])

    @property
    def resource_capacity(self) -> int:
        """Return how many resources the arrays have room for."""
        return int(self._used.shape[1])

    def columns(self) -> HostColumns:
        """Return the arrays for a kernel."""
        self._rows_used[0] = len(self.host_at)
        return HostColumns(
            self._rows_used, self._present, self._limit, self._used, self._guests, self._scored, self._rank,
            self._name_key, self._name_hash, self._device_left, self._device_size, self._device_kind,
            self._device_model, self._tags, self._version, self.holds.columns(self._used.shape[1]),
        )  # fmt: skip

    def log(self) -> TouchLog:
        """Return the touch log for a kernel."""
        return TouchLog(self._log_rows, self._log_end)

    def use_limit_sets(self, limit_sets: Sequence[LimitSet]) -> None:
        """Replace the policies' limit sets and recompute the limits of all rows."""
        for host in self.host_at:
            if host is not None:
                for resource, _ in host.capacity:
                    for overcommit, reserve, _ in limit_sets:
                        may_give(host, resource, overcommit, reserve)
        self.limit_sets = list(limit_sets)
        self._limit = np.zeros((len(limit_sets), *self._used.shape), dtype=np.int64)
        for row, host in enumerate(self.host_at):
            if host is not None:
                self._write_limits(row, host)
        self.layout_version += 1

    def fit_layout(self) -> None:
        """Make room for resources that were added since the arrays were made."""
        if len(self.tables.resources) > self._used.shape[1]:
            self._allocate(self._present.shape[0], 2 * len(self.tables.resources), self._device_left.shape[1])

    def copy(self, tables: Tables) -> Cluster:
        """Return an independent copy."""
        twin = Cluster.__new__(Cluster)
        twin.__dict__.update(self.__dict__)
        twin.tables = tables
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray):
                setattr(twin, name, value.copy())
        twin.row_of = self.row_of.copy()
        twin.host_at = self.host_at.copy()
        twin.guests_on = [guests.copy() for guests in self.guests_on]
        twin.free_rows = self.free_rows.copy()
        twin.order = self.order.copy()
        twin.marks = self.marks.copy()
        twin.counters = self.counters.copy()
        twin.holds = self.holds.copy()
        twin.limit_sets = self.limit_sets.copy()
        return twin

    # -- internals -------------------------------------------------------------------------------------------------

    def _new_row(self, name: str) -> int:
        if self.free_rows:
            row = self.free_rows.pop()
        else:
            row = len(self.host_at)
            self._reserve_rows(1)
            self.host_at.append(None)
            self.guests_on.append({})
        self.row_of[name] = row
        return row

    def _reserve_rows(self, extra: int) -> None:
        needed = len(self.host_at) + extra
        if needed > self._present.shape[0]:
            rows = max(needed, 2 * self._present.shape[0])
            self._allocate(rows, self._used.shape[1], self._device_left.shape[1])
        if needed > len(self._log_rows) // 2:
            ring = np.zeros(4 * needed, dtype=np.int32)
            end = int(self._log_end[0])
            for position in range(max(0, end - len(self._log_rows)), end):
                ring[position % len(ring)] = self._log_rows[position % len(self._log_rows)]
            self._log_rows = ring

    def _write(self, row: int, host: Host) -> None:
        """Write a host's own columns; bookings are not touched."""
        self.tables.acquire_host(host)
        self.fit_layout()
        if len(host.devices) > self._device_left.shape[1]:
            self._allocate(self._present.shape[0], self._used.shape[1], len(host.devices))
        before = self.host_at[row]
        self.host_at[row] = host
        self._present[row] = 1
        self._rank[row] = host.rank
        self._name_hash[row] = host_key(host)
        self._write_limits(row, host)
        if before is None or before.devices != host.devices:
            self._write_devices(row, host)
        self._write_marks(row, host, before)
        if before is not None:
            self.tables.drop_host(before)
        self.touch(row)

    def _write_marks(self, row: int, host: Host, before: Host | None) -> None:
        """Write labels and taints, and count the host's guests in the domains of its new labels."""
        guests = list(self.guests_on[row].values())
        if before is not None and before.labels == host.labels and before.taints == host.taints:
            self.marks.write(row, host)
            return
        if before is not None:
            self.counters.lift_host(row, before, guests)
        self.marks.write(row, host)
        self.counters.set_host(row, host, self.marks, guests)

    def _write_limits(self, row: int, host: Host) -> None:
        self._limit[:, row] = 0
        for at, (overcommit, reserve, is_single) in enumerate(self.limit_sets):
            for name, _ in host.capacity:
                number = self.tables.resources.number(name)
                self._limit[at, row, number] = may_give(host, name, overcommit, reserve)
            if not any(name == GUESTS for name, _ in host.capacity):
                self._limit[at, row, 0] = MAX_AMOUNT
            if is_single:
                self._limit[at, row, 0] = min(int(self._limit[at, row, 0]), 1)

    def _write_devices(self, row: int, host: Host) -> None:
        """Write the devices as entirely free; ``rebook_devices`` then subtracts the guests."""
        self._device_kind[row] = -1
        self._device_size[row] = 0
        for at, device in enumerate(host.devices):
            self._device_kind[row, at] = self.tables.kinds.number(device.kind)
            self._device_model[row, at] = self.tables.models.number(device.model)
            self._device_size[row, at] = device.milli
        self._device_left[row] = self._device_size[row]

    def _write_name_keys(self) -> None:
        for name, row in self.row_of.items():
            self._name_key[row] = self.order.keys[name]

    def _allocate(self, rows: int, resources: int, devices: int) -> None:
        """Replace all arrays by larger ones with the same content."""
        old = self.__dict__

        def grown(name: str, shape: tuple[int, ...], dtype: type, fill: int = 0) -> None:
            array: NDArray[np.generic] = np.full(shape, fill, dtype=dtype)
            if name in old:
                array[tuple(slice(0, n) for n in old[name].shape)] = old[name]
            setattr(self, name, array)

        grown("_present", (rows,), np.int8)
        grown("_limit", (len(self.limit_sets), rows, resources), np.int64)
        grown("_used", (rows, resources), np.int64)
        grown("_guests", (rows,), np.int64)
        grown("_scored", (rows, 2), np.int64)
        grown("_rank", (rows,), np.int64)
        grown("_name_key", (rows,), np.int64)
        grown("_name_hash", (rows,), np.uint64)
        grown("_device_left", (rows, devices), np.int64)
        grown("_device_size", (rows, devices), np.int64)
        grown("_device_kind", (rows, devices), np.int16, -1)
        grown("_device_model", (rows, devices), np.int16)
        grown("_tags", (rows, TAGS), np.int32)
        grown("_version", (rows,), np.int64)
        self._rows_used = np.zeros(1, dtype=np.int64)
        self.marks.fit(rows)
        self.counters.fit(rows)
        self.holds.fit(rows)
        self.layout_version += 1

    _present: np.ndarray[tuple[int], np.dtype[np.int8]]
    _limit: Int64s
    _used: Int64s
    _guests: Int64s
    _scored: Int64s
    _rank: Int64s
    _name_key: Int64s
    _name_hash: np.ndarray[tuple[int], np.dtype[np.uint64]]
    _device_left: Int64s
    _device_size: Int64s
    _device_kind: Int16s
    _device_model: Int16s
    _tags: Int32s
    _version: Int64s
    _rows_used: Int64s
