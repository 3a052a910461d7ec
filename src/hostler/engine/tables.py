"""Interning: names to small numbers that columns can hold, in order of first sight, never reused."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from hostler.errors import FactError
from hostler.model import CPU, GUESTS, MEMORY, STORAGE, Reason

__all__ = ["GPU", "ReasonTable", "Table", "Tables"]

GPU = "gpu"  # the device kind that the gpu-sharing scorers look at

T = TypeVar("T", bound=Hashable)


class Table(Generic[T]):
    """A growing list of distinct values with their numbers."""

    def __init__(self, values: Iterable[T] = ()) -> None:
        self.values: list[T] = list(values)
        self._number = {value: i for i, value in enumerate(self.values)}

    def number(self, value: T) -> int:
        """Return the value's number, giving it the next one when it is new."""
        known = self._number.get(value)
        if known is None:
            known = self._number[value] = len(self.values)
            self.values.append(value)
        return known

    def find(self, value: T) -> int:
        """Return the value's number, or -1."""
        return self._number.get(value, -1)

    def refill(self, values: Iterable[T]) -> None:
        """Replace everything, in place."""
        self.values[:] = values
        self._number = {value: i for i, value in enumerate(self.values)}

    def cut(self, size: int) -> None:
        """Forget all but the first values."""
        for value in self.values[size:]:
            del self._number[value]
        del self.values[size:]

    def __len__(self) -> int:
        return len(self.values)

    def copy(self) -> Table[T]:
        """Return an independent table with the same numbers."""
        return Table(self.values)


# Names become rows and columns of arrays, so their number is bounded; far beyond what any fleet has.
MAX_RESOURCES = 1024
MAX_DEVICE_NAMES = 4096
# Reasons with a subject that get a code of their own; later ones are counted without their subject.
MAX_SUBJECTS = 512


class ReasonTable(Table[Reason]):
    """Reasons by code; code 0 means that the host fits."""

    def number(self, value: Reason) -> int:
        """Return a reason's code; the subject is dropped when there are very many reasons already."""
        if value.subject and len(self.values) >= MAX_SUBJECTS and self.find(value) < 0:
            value = Reason(value.plugin, value.code)
        return super().number(value)

    def __init__(self, values: Iterable[Reason] = (Reason("", "fits"),)) -> None:
        super().__init__(values)

    def copy(self) -> ReasonTable:
        """Return an independent table with the same codes."""
        return ReasonTable(self.values)


class Tables:
    """All interned names of one engine."""

    def __init__(self) -> None:
        self.resources: Table[str] = Table((GUESTS, CPU, MEMORY, STORAGE))
        self.kinds: Table[str] = Table((GPU,))
        self.models: Table[str] = Table(("",))
        self.reasons = ReasonTable()

    def copy(self) -> Tables:
        """Return independent tables with the same numbers."""
        twin = Tables()
        twin.resources = self.resources.copy()
        twin.kinds = self.kinds.copy()
        twin.models = self.models.copy()
        twin.reasons = self.reasons.copy()
        return twin

    def sizes(self) -> tuple[int, ...]:
        """Return the length of every table."""
        return len(self.resources), len(self.kinds), len(self.models), len(self.reasons)

    def cut(self, sizes: tuple[int, ...]) -> None:
        """Forget what was interned since the tables had these sizes."""
        resources, kinds, models, reasons = sizes
        self.resources.cut(resources)
        self.kinds.cut(kinds)
        self.models.cut(models)
        self.reasons.cut(reasons)

    def check_room(self, resources: Iterable[str], kinds: Iterable[str] = (), models: Iterable[str] = ()) -> None:
        """Refuse names that would pass the bounds, before any of them is interned."""
        for table, names, most, what in (
            (self.resources, resources, MAX_RESOURCES, "resources"),
            (self.kinds, kinds, MAX_DEVICE_NAMES, "device kinds"),
            (self.models, models, MAX_DEVICE_NAMES, "device models"),
        ):
            fresh = {name for name in names if table.find(name) < 0}
            if fresh and len(table) + len(fresh) > most:
                raise FactError(f"there are more than {most} different {what}", hint="check how their names are made")

    def insufficient(self, resource: int) -> int:
        """Return the reason code for too little of a resource."""
        return self.reasons.number(Reason("resources", "insufficient", self.resources.values[resource]))

    def device_codes(self, kind: int) -> tuple[int, int, int]:
        """Return the reason codes for no device, no device of the model, and no room on devices of a kind."""
        name = self.kinds.values[kind]
        return (
            self.reasons.number(Reason("devices", "no_device", name)),
            self.reasons.number(Reason("devices", "wrong_device_model", name)),
            self.reasons.number(Reason("devices", "insufficient_devices", name)),
        )
