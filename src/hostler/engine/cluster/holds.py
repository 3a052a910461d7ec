"""Holds: room on a host that is kept free for nominated preemptors, reservations and gangs.

A hold counts as used for every guest of equal or lower priority, unless the guest has the hold's pass. The holds of a
row form a chain, so rows without holds cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hostler.engine.kernels.layout import HoldColumns, Int8s, Int32s, Int64s

__all__ = ["ALWAYS", "Hold", "Holds"]

ALWAYS = 2**62  # the priority of a hold that everybody respects


class Hold(NamedTuple):
    """Amounts of some resources on a row, for guests that have the hold's pass."""

    row: int
    amounts: tuple[tuple[int, int], ...]
    priority: int
    has_devices: bool = False  # guests that want devices stay away altogether
    pass_number: int = -1  # guests that bear this pass do not mind the hold


class Holds:
    """All holds by name, as columns for the kernels."""

    def __init__(self, rows: int) -> None:
        self._number: dict[tuple[str, int], int] = {}
        self._holds: list[Hold | None] = []
        self._names: list[str] = []
        self._free: list[int] = []
        self._first: Int32s = np.full(rows, -1, dtype=np.int32)
        self._next: Int32s = np.full(4, -1, dtype=np.int32)
        self._priority: Int64s = np.zeros(4, dtype=np.int64)
        self._pass: Int32s = np.zeros(4, dtype=np.int32)
        self._devices: Int8s = np.zeros(4, dtype=np.int8)
        self._amount: Int64s = np.zeros((4, 8), dtype=np.int64)

    def fit(self, rows: int) -> None:
        """Make room for so many rows."""
        if rows > len(self._first):
            grown = np.full(rows, -1, dtype=np.int32)
            grown[: len(self._first)] = self._first
            self._first = grown

    def put(self, name: str, hold: Hold) -> None:
        """Hold room on a row; a hold of the same name there is replaced."""
        self.drop(name, hold.row)
        number = self._free.pop() if self._free else len(self._holds)
        if number == len(self._holds):
            self._holds.append(None)
            self._names.append("")
        self._names[number] = name
        width = 1 + max((resource for resource, _ in hold.amounts), default=0)
        self._fit(number + 1, width)
        self._amount[number] = 0
        for resource, amount in hold.amounts:
            self._amount[number, resource] = amount
        self._priority[number] = hold.priority
        self._pass[number] = hold.pass_number
        self._devices[number] = hold.has_devices
        self._next[number] = self._first[hold.row]
        self._first[hold.row] = number
        self._number[name, hold.row] = number
        self._holds[number] = hold

    def drop(self, name: str, row: int) -> bool:
        """Release the hold of a name on a row; return whether there was one."""
        number = self._number.pop((name, row), None)
        if number is None:
            return False
        if self._first[row] == number:
            self._first[row] = self._next[number]
        else:
            before = int(self._first[row])
            while self._next[before] != number:
                before = int(self._next[before])
            self._next[before] = self._next[number]
        self._holds[number] = None
        self._free.append(number)
        return True

    def get(self, name: str, row: int) -> Hold | None:
        """Return the hold of a name on a row."""
        number = self._number.get((name, row))
        return None if number is None else self._holds[number]

    def on(self, row: int) -> list[tuple[str, Hold]]:
        """Return the holds on a row by name."""
        found = []
        number = int(self._first[row])
        while number >= 0:
            hold = self._holds[number]
            assert hold is not None
            found.append((self._names[number], hold))
            number = int(self._next[number])
        return sorted(found)

    def rows_of(self, name: str) -> list[int]:
        """Return the rows on which a name has holds."""
        return sorted(row for known, row in self._number if known == name)

    def __len__(self) -> int:
        return len(self._number)

    def columns(self, resources: int) -> HoldColumns:
        """Return the arrays for a kernel with so many resources."""
        self._fit(1, resources)
        return HoldColumns(self._first, self._next, self._priority, self._pass, self._devices, self._amount)

    def copy(self) -> Holds:
        """Return an independent copy."""
        twin = Holds.__new__(Holds)
        twin.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if not isinstance(value, int):
                setattr(twin, name, value.copy())
        return twin

    def _fit(self, holds: int, resources: int) -> None:
        count, width = self._amount.shape
        if holds <= count and resources <= width:
            return
        count, width = max(count, 2 * holds if holds > count else count), max(width, resources)
        for name, fill in (("_next", -1), ("_priority", 0), ("_pass", 0), ("_devices", 0)):
            old = getattr(self, name)
            grown = np.full(count, fill, dtype=old.dtype)
            grown[: len(old)] = old
            setattr(self, name, grown)
        amount = np.zeros((count, width), dtype=np.int64)
        amount[: self._amount.shape[0], : self._amount.shape[1]] = self._amount
        self._amount = amount
