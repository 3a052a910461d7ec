"""Shapes: distinct guest specs, interned, with their amounts as numbers for the columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from hostler.engine.cluster.fact_checks import check_types
from hostler.engine.cluster.tables import GPU, MAX_RESOURCES, UNKNOWN_RESOURCE, Tables
from hostler.engine.kernels.layout import TAGS
from hostler.errors import FactError
from hostler.model import CPU, GUESTS, MAX_AMOUNT, MEMORY, STORAGE, WHOLE_DEVICE, GuestSpec
from hostler.model.guests import MAX_TERMS, has_soft_constraints, scored_amount
from hostler.model.hosts import MAX_DEVICES

__all__ = ["DeviceAsk", "Shape", "ShapeTable", "check_spec"]

_MAX_IDS = 65_536
_MAX_IDLE = 1024
_MAX_IDLE_BYTES = 2**21  # of them all, written down: some specs are a thousand times as long as others
_NOBODYS = GuestSpec()
_MAX_ASKS = 16
_MAX_MODELS = 4096  # that one guest may name; fronts allow far fewer
_ALWAYS_KNOWN = frozenset({GUESTS, CPU, MEMORY, STORAGE, GPU})
_MAX_WEIGHT = 1_000_000
_MAX_COUNT = 1_000_000
_MAX_SCORED = 2**44  # half a million such guests on one host still fit 64 bits


class DeviceAsk(NamedTuple):
    """A device request in numbers; ``models`` has those named models that a host has."""

    kind: int
    devices: int
    milli: int
    models: tuple[int, ...]
    is_any: bool  # whether every model will do


class Shape(NamedTuple):
    """A spec in numbers."""

    number: int
    spec: GuestSpec
    amounts: tuple[tuple[int, int], ...]  # resource number to amount, every guest asks for one of resource 0
    scored: tuple[int, int]
    asks: tuple[DeviceAsk, ...]
    device_count: int  # of all requests; capped at what a host can have
    tag: int
    gpu: tuple[int, int, int, int]  # milli per gpu, count, total, position among the requests
    unknown: tuple[str, ...] = ()  # resources that it asks for and no host has
    has_soft_constraints: bool = False


class ShapeTable:
    """All shapes of one engine by number. Shapes without guests are kept for a while, then their numbers are reused."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.shapes: list[Shape] = []
        self._users: list[int] = []
        self._sizes: list[int] = []  # of the specs, in bytes
        self._idle: dict[int, None] = {}  # shapes without guests, oldest first
        self._idle_bytes = 0
        self._free: list[int] = []
        self._number: dict[GuestSpec, int] = {}
        self._by_id: dict[int, tuple[GuestSpec, int]] = {}
        self._naming: dict[str, dict[int, None]] = {}  # resources and devices to the shapes that name them
        self.fresh: list[int] = []  # interned by the fact that is being applied

    def number(self, spec: GuestSpec) -> int:
        """Return the shape's number; a known spec is found by identity first."""
        known = self._by_id.get(id(spec))
        if known is not None and known[0] is spec:
            return known[1]
        if not isinstance(spec, GuestSpec):
            raise FactError(f"{spec!r:.80} is not a guest's spec")
        try:
            number = self._number.get(spec)
        except TypeError as error:
            raise FactError(f"a guest's spec has a field of a wrong type: {error}") from error
        if number is None:
            number = self._add(spec)
        if len(self._by_id) >= _MAX_IDS:
            self._by_id.clear()
        self._by_id[id(spec)] = (spec, number)
        return number

    def intern(self, spec: GuestSpec) -> tuple[GuestSpec, int]:
        """Return the one spec that all guests of this shape share, and the shape's number.

        Equal specs need not have equal bytes: msgspec leaves out a default only if it is the very same object. So the
        state keeps the first of them, as checkpoints do.
        """
        number = self.number(spec)
        return self.shapes[number].spec, number

    def acquire(self, number: int) -> None:
        """Count one more guest of a shape."""
        self._users[number] += 1
        if number in self._idle:
            self._wake(number)

    def release(self, number: int) -> list[int]:
        """Drop one guest of a shape; return the numbers of shapes that were forgotten."""
        self._users[number] -= 1
        if self._users[number]:
            return []
        self._rest(number)
        freed = []
        while len(self._idle) > _MAX_IDLE or (self._idle_bytes > _MAX_IDLE_BYTES and len(self._idle) > 1):
            oldest = next(iter(self._idle))
            self._wake(oldest)
            self._forget(oldest)
            self.shapes[oldest] = self.shapes[oldest]._replace(spec=_NOBODYS)  # it may be long
            self._free.append(oldest)
            freed.append(oldest)
        if freed:
            self._by_id.clear()
        return freed

    def _rest(self, number: int) -> None:
        """Add a shape to those without guests."""
        self._idle[number] = None
        self._idle_bytes += self._sizes[number]

    def _wake(self, number: int) -> None:
        """Remove a shape from those without guests."""
        del self._idle[number]
        self._idle_bytes -= self._sizes[number]

    def naming(self, names: Iterable[str]) -> list[int]:
        """Return the shapes that name any of these resources, device kinds or models."""
        return sorted({number for name in names for number in self._naming.get(name, ())})

    def rebuild(self, number: int) -> Shape:
        """Recompute a shape's numbers after names were added or released; return the new shape."""
        self.shapes[number] = self._build(self.shapes[number].spec, number)
        return self.shapes[number]

    def specs_by_number(self) -> list[GuestSpec | None]:
        """Return the specs by number, with None for free numbers."""
        free = set(self._free)
        return [None if number in free else shape.spec for number, shape in enumerate(self.shapes)]

    def idle(self) -> list[int]:
        """Return the numbers of the shapes without guests, in the order in which they will be forgotten."""
        return list(self._idle)

    def free(self) -> list[int]:
        """Return the free numbers; the last one is assigned first."""
        return self._free.copy()

    def order_unused(self, idle: Sequence[int], free: Sequence[int]) -> None:
        """Restore the order in which numbers are forgotten and assigned, as ``idle`` and ``free`` returned it.

        Checkpoints of older versions do not have it; then the order is that of the numbers.
        """
        if sorted(idle) == sorted(self._idle):
            self._idle = dict.fromkeys(idle)
        if sorted(free) == sorted(self._free):
            self._free = list(free)

    def shape_of(self, spec: GuestSpec) -> Shape:
        """Return the shape of a spec; if it has no number any more, a shape that has only the spec."""
        number = self._number.get(spec)
        return self.shapes[number] if number is not None else Shape(-1, spec, (), (0, 0), (), 0, -1, (0, 0, 0, 0))

    def restore(self, specs: Sequence[GuestSpec | None]) -> None:
        """Fill an empty table with the result of ``specs_by_number``; no guest is counted yet."""
        for number, spec in enumerate(specs):
            self.shapes.append(self._build(spec or GuestSpec(), number))
            self._sizes.append(_size(self.shapes[-1].spec))
            self._users.append(0)
            if spec is None:
                self._free.append(number)
            else:
                self._know(spec, number)
                self._rest(number)

    def copy(self, tables: Tables) -> ShapeTable:
        """Return an independent table with the same numbers."""
        twin = ShapeTable(tables)
        twin.shapes = self.shapes.copy()
        twin._users = self._users.copy()
        twin._sizes = self._sizes.copy()
        twin._idle = self._idle.copy()
        twin._idle_bytes = self._idle_bytes
        twin._free = self._free.copy()
        twin._number = self._number.copy()
        twin._naming = {name: shapes.copy() for name, shapes in self._naming.items()}
        return twin

    def _know(self, spec: GuestSpec, number: int) -> None:
        """Index a shape by its spec and by the names in it."""
        self._number[spec] = number
        for name in _names(spec):
            self._naming.setdefault(name, {})[number] = None

    def _forget(self, number: int) -> None:
        """Remove a shape from the index."""
        spec = self.shapes[number].spec
        del self._number[spec]
        for name in _names(spec):
            naming = self._naming[name]
            del naming[number]
            if not naming:
                del self._naming[name]

    def _add(self, spec: GuestSpec) -> int:
        number = self._free[-1] if self._free else len(self.shapes)
        shape = self._build(spec, number)
        if self._free:
            self._free.pop()
            self.shapes[number] = shape
            self._sizes[number] = _size(spec)
        else:
            self.shapes.append(shape)
            self._sizes.append(_size(spec))
            self._users.append(0)
        self._know(spec, number)
        self._rest(number)
        self.fresh.append(number)
        return number

    def take_back(self) -> None:
        """Forget the fresh shapes: their fact was rejected, so no guest has them."""
        while self.fresh:
            number = self.fresh.pop()
            if number not in self._idle:
                continue  # forgotten already
            self._wake(number)
            self._forget(number)
            if number == len(self.shapes) - 1:
                self.shapes.pop()
                self._sizes.pop()
                self._users.pop()
            else:
                self._free.append(number)
        self._by_id.clear()

    def _build(self, spec: GuestSpec, number: int) -> Shape:
        check_types(spec, "guest's spec")
        check_spec(spec)
        tables = self._tables
        wanted = dict(spec.requests)
        wanted[GUESTS] = wanted.get(GUESTS, 0) or 1
        asked = {tables.resources.find(name): amount for name, amount in wanted.items() if amount}
        unknown = tuple(name for name, amount in spec.requests if amount and tables.resources.find(name) < 0)
        if asked.pop(-1, 0):
            # No host can give any of it. The sum keeps bookings from outside within 64 bits, whatever becomes known.
            asked[UNKNOWN_RESOURCE] = min(sum(wanted[name] for name in unknown), MAX_AMOUNT)
        amounts = tuple(sorted(asked.items()))
        asks = tuple(
            DeviceAsk(
                tables.kinds.number(d.kind),
                d.count,
                d.milli,
                tuple(sorted({tables.models.find(m) for m in d.models} - {-1})),
                not d.models,
            )
            for d in spec.devices
        )
        gpus = [d for d in spec.devices if d.kind == GPU]
        milli, count = (gpus[0].milli, gpus[0].count) if gpus else (0, 0)
        tag = -1
        if gpus:
            tag = 0 if count == 1 and milli < WHOLE_DEVICE else min(count, TAGS - 1)
        return Shape(
            number=number,
            spec=spec,
            amounts=amounts,
            scored=(scored_amount(spec, CPU), scored_amount(spec, MEMORY)),
            asks=asks,
            device_count=min(sum(d.count for d in spec.devices), MAX_DEVICES * len(spec.devices)),
            tag=tag,
            gpu=(milli, count, sum(d.milli * d.count for d in gpus), spec.devices.index(gpus[0]) if gpus else 0),
            unknown=unknown,
            has_soft_constraints=has_soft_constraints(spec),
        )


def _names(spec: GuestSpec) -> set[str]:
    """Return the names in a spec that some hosts may have and others not."""
    names = {name for name, _ in spec.requests}
    for device in spec.devices:
        names.add(device.kind)
        names.update(device.models)
    return names - _ALWAYS_KNOWN


def _size(spec: GuestSpec) -> int:
    """Return the length of a spec as JSON. In memory it takes several times as much."""
    return len(msgspec.msgpack.encode(spec))


def check_spec(spec: GuestSpec) -> None:
    """Raise FactError for a spec that no engine can store. Fronts call it first, so that owners learn the reason."""
    for name, amount in spec.requests:
        if not 0 <= amount <= MAX_AMOUNT:
            raise FactError(f"a guest asks for {amount} of {name}, which is not between 0 and 2^62")
    for name, amount in spec.scored_requests:
        if not 0 <= amount <= _MAX_SCORED:
            raise FactError(f"a guest is scored by {amount} of {name}, which is not between 0 and 2^44")
    for preferred in spec.preferred_hosts:
        if not -_MAX_WEIGHT <= preferred.weight <= _MAX_WEIGHT:
            raise FactError(f"a guest prefers hosts with weight {preferred.weight}; at most {_MAX_WEIGHT} is supported")
    if not -(2**62) <= spec.priority < 2**62:
        raise FactError(f"a guest has priority {spec.priority}, which is not between -2^62 and 2^62")
    for term in (*spec.preferred_affinity, *spec.preferred_anti_affinity):
        if not -_MAX_WEIGHT <= term.weight <= _MAX_WEIGHT:
            raise FactError(f"a guest prefers guests with weight {term.weight}; at most {_MAX_WEIGHT} is supported")
    for spread in spec.spread:
        if not 1 <= spread.max_skew < 2**31 or not 0 <= spread.min_domains < 2**31:
            raise FactError(f"a guest is spread with skew {spread.max_skew} over {spread.min_domains} domains")
    if spec.term_count > MAX_TERMS:
        raise FactError(
            f"a guest has {spec.term_count} rules about other guests; at most {MAX_TERMS} are supported",
            hint="name a label that all of the others share",
        )
    terms = [weighted.term for weighted in (*spec.preferred_affinity, *spec.preferred_anti_affinity)]
    topologies = [term.topology for term in (*spec.affinity, *spec.anti_affinity, *terms)]
    if not all((*topologies, *(spread.topology for spread in spec.spread))):
        raise FactError("a rule about other guests names no topology", hint="name a host label, such as zone")
    for port in spec.ports:
        if not 0 <= port.port < 65_536:
            raise FactError(f"a guest asks for port {port.port}")
    if len(spec.requests) > MAX_RESOURCES:
        raise FactError(f"a guest asks for {len(spec.requests)} resources; at most {MAX_RESOURCES} are supported")
    models = sum(len(device.models) for device in spec.devices)
    if models > _MAX_MODELS:
        raise FactError(f"a guest names {models} device models; at most {_MAX_MODELS} are supported")
    if len(spec.devices) > _MAX_ASKS:
        raise FactError(f"a guest has {len(spec.devices)} device requests; at most {_MAX_ASKS} are supported")
    for device in spec.devices:
        if not 1 <= device.count <= _MAX_COUNT or not 1 <= device.milli <= WHOLE_DEVICE:
            raise FactError(f"a guest asks for {device.count} devices with {device.milli} milli-units each")
