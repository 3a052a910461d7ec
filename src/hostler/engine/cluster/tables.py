"""Interning: names as small numbers that columns can store, and the order of host names as numbers.

Only hosts, policies and reservations add names of resources and devices. A guest that requests an unknown name gets the
number UNKNOWN for it, so guests cannot fill a table. A name without users is released and its number is reused, in an
order that checkpoints keep, because kernels check resources in the order of their numbers. Reason codes are not
decision state: records store the reasons themselves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from hostler.errors import NamesFullError
from hostler.model import CPU, GUESTS, MEMORY, STORAGE, Host, Reason

__all__ = [
    "ASKED",
    "GPU",
    "MAX_KINDS",
    "MAX_MODELS",
    "MAX_RESOURCES",
    "MAX_SUBJECTS",
    "UNKNOWN_KIND",
    "UNKNOWN_RESOURCE",
    "NameOrder",
    "NameTable",
    "ReasonTable",
    "Table",
    "Tables",
]

GPU = "gpu"  # the device kind that the gpu-sharing scorers look at

# The numbers of resources and device kinds that no host, policy or reservation has.
UNKNOWN_RESOURCE = 4
UNKNOWN_KIND = 1

# Names become rows and columns of arrays, so their number is bounded; far beyond what any fleet has. Fronts reject what
# would pass these bounds before the engine sees it.
MAX_RESOURCES = 1024  # 8 bytes a host row, twice
MAX_KINDS = 1024  # three reasons each
MAX_MODELS = 16_384  # one byte for each request in each slot of the verdict cache
MAX_SUBJECTS = 512  # taints that have a reason of their own; if hosts have more, reasons do not name the taint

ASKED = "asked"  # the code of a reason that stands for one of a shape's asks, by position
_MAX_POSITIONS = 64  # asks of one shape that have a reason of their own; later ones are counted without their subject

T = TypeVar("T", bound=Hashable)
_GAP = 1 << 32


class Table(Generic[T]):
    """Distinct values with their numbers; the number of a released value is used again."""

    def __init__(self, values: Iterable[T] = ()) -> None:
        self.values: list[T] = list(values)
        self._number = {value: i for i, value in enumerate(self.values)}
        self._free: list[int] = []

    def number(self, value: T) -> int:
        """Return the value's number; a new value gets a free one."""
        known = self._number.get(value)
        if known is None:
            known = self._number[value] = self._take(value)
        return known

    def find(self, value: T) -> int:
        """Return the value's number, or -1."""
        return self._number.get(value, -1)

    def release(self, value: T, hole: T) -> None:
        """Forget a value; ``hole`` takes its place until the number is reused."""
        number = self._number.pop(value)
        self.values[number] = hole
        self._free.append(number)

    @property
    def used(self) -> int:
        """Return how many numbers have a value."""
        return len(self.values) - len(self._free)

    def __len__(self) -> int:
        return len(self.values)

    def copy(self) -> Table[T]:
        """Return an independent table with the same numbers."""
        twin: Table[T] = Table()
        self._copy_into(twin)
        return twin

    def _copy_into(self, twin: Table[T]) -> None:
        twin.values, twin._number, twin._free = self.values.copy(), self._number.copy(), self._free.copy()

    def _take(self, value: T) -> int:
        if self._free:
            number = self._free.pop()
            self.values[number] = value
        else:
            number = len(self.values)
            self.values.append(value)
        return number


class NameTable(Table[str]):
    """Names with counts of their users; the fixed names are always present."""

    def __init__(self, fixed: Sequence[str], unknown: int = -1) -> None:
        super().__init__(fixed)
        if unknown >= 0:
            del self._number[fixed[unknown]]  # no name has that number
        self._unknown = unknown
        self._fixed = len(fixed)
        self._users = [1] * len(fixed)
        self._resting: list[int] = []  # released since ``settle``: not to be used again before
        self.version = 0  # changes when a number gets another name
        self.changed: dict[str, None] = {}  # names that came or went since ``settle``

    def number(self, value: str) -> int:
        """Return the name's number, or UNKNOWN if no host has the name."""
        return self._number.get(value, self._unknown)

    def acquire(self, name: str) -> int:
        """Add a user of a name; return the name's number."""
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = self._take(name)
            if number == len(self._users):
                self._users.append(0)
            self._note(name)
        self._users[number] += 1
        return number

    def drop(self, name: str) -> None:
        """Remove a user of a name; a name without users is released."""
        number = self._number[name]
        self._users[number] -= 1
        if not self._users[number] and number >= self._fixed:
            del self._number[name]
            self.values[number] = ""
            self._resting.append(number)
            self._note(name)

    def settle(self) -> None:
        """Make released numbers available again: nothing refers to their former names any more."""
        self._free += self._resting
        self._resting.clear()
        self.changed.clear()

    @property
    def free(self) -> list[int]:
        """Return the free numbers; the last one is assigned first."""
        return [*self._free, *self._resting]

    def refill(self, values: Sequence[str], free: Sequence[int]) -> None:
        """Restore the names of a checkpoint, without users."""
        if list(values[: self._fixed]) != self.values[: self._fixed] or len(set(free)) < len(free):
            raise ValueError("the table of names begins otherwise, or a number is free twice")
        holes = {self._unknown, *free}
        self.values[:] = values
        self._number = {value: i for i, value in enumerate(values) if i not in holes}
        self._free, self._users = list(free), [int(i < self._fixed) for i in range(len(values))]
        self.version += 1

    def copy(self) -> NameTable:
        """Return an independent table with the same numbers."""
        twin = NameTable.__new__(NameTable)
        twin.__dict__.update(self.__dict__)
        self._copy_into(twin)
        twin._users, twin._resting, twin.changed = self._users.copy(), self._resting.copy(), self.changed.copy()
        return twin

    def _note(self, name: str) -> None:
        self.version += 1
        self.changed[name] = None


class ReasonTable(Table[Reason]):
    """Reasons by code, for the verdict cache; code 0 means that the host fits.

    Codes of resources, device kinds and taints belong to a number, and get a new subject when the number gets a new
    name: no slot counts by a released name. Reasons of peer rules have one code for each position in a shape's list of
    rules.
    """

    def __init__(self, values: Iterable[Reason] = (Reason("", "fits"),)) -> None:
        super().__init__(values)
        self._numbered: dict[tuple[str, str, int], int] = {}
        self.varying: set[int] = set()  # codes whose reason depends on the shape

    def number(self, value: Reason) -> int:
        """Return a reason's code."""
        known = super().number(value)
        if known not in self.varying and value.plugin in ("host_affinity", "unsupported"):
            self.varying.add(known)
        return known

    def code_by_number(self, plugin: str, code: str, number: int, subject: str) -> int:
        """Return the code of a reason about the current name of a number."""
        key = (plugin, code, number)
        known = self._numbered.get(key)
        if known is None:
            known = self._numbered[key] = self._take(Reason(plugin, code, subject))
            if not subject:
                self.varying.add(known)
        elif self.values[known].subject != subject:
            self.values[known] = Reason(plugin, code, subject)
        return known

    def code_by_position(self, position: int, reason: Reason) -> int:
        """Return the code for the reason at a position in a shape's list of peer rules."""
        if position >= _MAX_POSITIONS:
            return self.number(Reason(reason.plugin, reason.code))
        code = self.code_by_number("", ASKED, position, str(position))
        self.varying.add(code)
        return code

    def copy(self) -> ReasonTable:
        """Return an independent table with the same codes."""
        twin = ReasonTable(())
        self._copy_into(twin)
        twin._numbered, twin.varying = self._numbered.copy(), self.varying.copy()
        return twin


class Tables:
    """All interned names of one engine."""

    def __init__(self) -> None:
        self.resources = NameTable((GUESTS, CPU, MEMORY, STORAGE, ""), UNKNOWN_RESOURCE)
        self.kinds = NameTable((GPU, ""), UNKNOWN_KIND)
        self.models = NameTable(("",))
        self.reasons = ReasonTable()

    def copy(self) -> Tables:
        """Return independent tables with the same numbers."""
        twin = Tables()
        twin.resources = self.resources.copy()
        twin.kinds = self.kinds.copy()
        twin.models = self.models.copy()
        twin.reasons = self.reasons.copy()
        return twin

    @property
    def version(self) -> tuple[int, ...]:
        """Return a value that changes when a number of any table gets another name."""
        return self.resources.version, self.kinds.version, self.models.version

    def check_room(self, resources: Iterable[str] = (), kinds: Iterable[str] = (), models: Iterable[str] = ()) -> None:
        """Reject names that would exceed the bounds, before any of them is interned; NamesFullError.

        Known names are always accepted: hosts that came first keep working. May be called from other threads.
        """
        for table, names, most, what in (
            (self.resources, resources, MAX_RESOURCES, "resources"),
            (self.kinds, kinds, MAX_KINDS, "device kinds"),
            (self.models, models, MAX_MODELS, "device models"),
        ):
            fresh = {name for name in names if table.find(name) < 0}
            if fresh and table.used + len(fresh) > most:
                raise NamesFullError(
                    f"hosts have more than {most} different {what}: {table.used} are known, and {len(fresh)} are new",
                    hint="check how their names are made, and delete hosts that are not needed",
                )

    def acquire_host(self, host: Host) -> None:
        """Add a host to the users of its names."""
        for name, _ in host.capacity:
            self.resources.acquire(name)
        for device in host.devices:
            self.kinds.acquire(device.kind)
            self.models.acquire(device.model)

    def drop_host(self, host: Host) -> None:
        """Remove a host from the users of its names."""
        for name, _ in host.capacity:
            self.resources.drop(name)
        for device in host.devices:
            self.kinds.drop(device.kind)
            self.models.drop(device.model)

    def changes(self) -> set[str]:
        """Return the names that were added or released since ``settle``."""
        return {*self.resources.changed, *self.kinds.changed, *self.models.changed}

    def settle(self) -> None:
        """Make released numbers available again, after all shapes and columns stopped using them."""
        for table in (self.resources, self.kinds, self.models):
            table.settle()

    def insufficient(self, resource: int) -> int:
        """Return the reason code for too little of a resource."""
        return self.reasons.code_by_number("resources", "insufficient", resource, self.resources.values[resource])

    def device_codes(self, kind: int) -> tuple[int, int, int]:
        """Return the reason codes for no device, no device of the model, and no room on devices of a kind."""
        name = self.kinds.values[kind]
        return (
            self.reasons.code_by_number("devices", "no_device", kind, name),
            self.reasons.code_by_number("devices", "wrong_device_model", kind, name),
            self.reasons.code_by_number("devices", "insufficient_devices", kind, name),
        )


class NameOrder:
    """Integers that sort like host names, so that kernels can break ties by name without strings.

    Keys are spaced apart. A new name takes the middle between its neighbors; if there is none, all keys are assigned
    again. The order of known names never changes, so cached choices stay valid.
    """

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
