"""Shapes: guest specs interned once, with their amounts as numbers that columns can hold."""

from __future__ import annotations

from typing import NamedTuple

from hostler.engine.kernels_layout import TAGS
from hostler.engine.tables import GPU, Tables
from hostler.errors import FactError
from hostler.model import CPU, GUESTS, MAX_AMOUNT, MEMORY, WHOLE_DEVICE, GuestSpec
from hostler.model.guests import scored_amount

__all__ = ["DeviceAsk", "Shape", "ShapeTable"]

_MAX_IDS = 65_536


class DeviceAsk(NamedTuple):
    """A device request in numbers; ``models`` is empty when any will do."""

    kind: int
    devices: int
    milli: int
    models: tuple[int, ...]


class Shape(NamedTuple):
    """A spec in numbers."""

    number: int
    spec: GuestSpec
    amounts: tuple[tuple[int, int], ...]  # resource number to amount, every guest asks for one of resource 0
    scored: tuple[int, int]
    asks: tuple[DeviceAsk, ...]
    device_count: int
    tag: int
    gpu: tuple[int, int, int]  # milli per gpu, count, total


class ShapeTable:
    """All shapes of one engine by number."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.shapes: list[Shape] = []
        self._number: dict[GuestSpec, int] = {}
        self._by_id: dict[int, tuple[GuestSpec, int]] = {}

    def number(self, spec: GuestSpec) -> int:
        """Return the shape's number; a spec seen before is found by identity first."""
        known = self._by_id.get(id(spec))
        if known is not None and known[0] is spec:
            return known[1]
        number = self._number.get(spec)
        if number is None:
            shape = self._build(spec)
            number = len(self.shapes)
            self.shapes.append(shape)
            self._number[spec] = number
        if len(self._by_id) >= _MAX_IDS:
            self._by_id.clear()
        self._by_id[id(spec)] = (spec, number)
        return number

    def copy(self, tables: Tables) -> ShapeTable:
        """Return an independent table with the same numbers."""
        twin = ShapeTable(tables)
        twin.shapes = self.shapes.copy()
        twin._number = self._number.copy()
        return twin

    def _build(self, spec: GuestSpec) -> Shape:
        _check(spec)
        tables = self._tables
        wanted = dict(spec.requests)
        wanted[GUESTS] = wanted.get(GUESTS, 0) or 1
        amounts = tuple(sorted((tables.resources.number(name), amount) for name, amount in wanted.items() if amount))
        asks = tuple(
            DeviceAsk(
                tables.kinds.number(d.kind),
                d.count,
                d.milli,
                tuple(sorted({tables.models.number(m) for m in d.models})),
            )
            for d in spec.devices
        )
        gpus = [d for d in spec.devices if d.kind == GPU]
        milli, count = (gpus[0].milli, gpus[0].count) if gpus else (0, 0)
        tag = -1
        if gpus:
            tag = 0 if count == 1 and milli < WHOLE_DEVICE else min(count, TAGS - 1)
        return Shape(
            number=len(self.shapes),
            spec=spec,
            amounts=amounts,
            scored=(scored_amount(spec, CPU), scored_amount(spec, MEMORY)),
            asks=asks,
            device_count=sum(d.count for d in spec.devices),
            tag=tag,
            gpu=(milli, count, sum(d.milli * d.count for d in gpus)),
        )


def _check(spec: GuestSpec) -> None:
    """Refuse amounts that no front could send."""
    for name, amount in (*spec.requests, *spec.scored_requests):
        if not 0 <= amount <= MAX_AMOUNT:
            raise FactError(f"a guest asks for {amount} of {name}, which is not between 0 and 2^62")
    for device in spec.devices:
        if device.count < 1 or not 1 <= device.milli <= WHOLE_DEVICE:
            raise FactError(f"a guest asks for {device.count} devices with {device.milli} milli-units each")
