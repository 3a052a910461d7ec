"""Named integer amounts: cpu in milli, everything else in its own unit (bytes, pieces).

A mapping is kept as a tuple of pairs sorted by name, so that values hash, compare and cannot change.
Any name is a resource; ``cpu``, ``memory``, ``storage`` and ``guests`` have a meaning that policies rely on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostler.errors import QuantityError
from hostler.model.quantities import MAX_AMOUNT, format_amount, parse_quantity

__all__ = [
    "COMMON_RESOURCES", "CPU", "GUESTS", "MEMORY", "STORAGE", "Amounts", "Labels", "add_amounts", "amount_of",
    "amounts", "format_resource", "labels", "parse_amounts", "parse_resource",
]  # fmt: skip

CPU = "cpu"
MEMORY = "memory"
STORAGE = "storage"
GUESTS = "guests"  # how many guests a host holds at most; every guest asks for one
COMMON_RESOURCES = (CPU, MEMORY, STORAGE, GUESTS)  # names that policies and notes know

Amounts = tuple[tuple[str, int], ...]
Labels = tuple[tuple[str, str], ...]

_BYTES = frozenset({MEMORY, STORAGE, "ephemeral-storage"})
_CPU_FORM = 'write it as 2, "1500m" or "0.5"'
_BYTES_FORM = 'write it as "2Gi", "512Mi" or a number of bytes'
_COUNT_FORM = 'write it as 2 or "1k"'


def parse_resource(name: str, value: str | int | float) -> int:
    """Parse an amount of one resource in its unit: cpu in milli, all others whole."""
    if name == CPU:
        return parse_quantity(value, per_unit=1000, form=_CPU_FORM)
    return parse_quantity(value, form=_BYTES_FORM if _is_bytes(name) else _COUNT_FORM)


def format_resource(name: str, amount: int) -> str:
    """Write an amount of one resource as a person would: ``1500m``, ``2Gi``, ``7``."""
    if amount < 0:
        return "-" + format_resource(name, -amount)
    return format_amount(amount, per_unit=1000 if name == CPU else 1, binary=_is_bytes(name))


def format_devices(milli: int) -> str:
    """Write an amount of devices in whole ones, as people count them: ``2``, ``0.5``; ``milli`` is in thousandths."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli / 1000:.3f}".rstrip("0")


def _is_bytes(name: str) -> bool:
    return name in _BYTES or name.startswith("hugepages-")


def parse_amounts(values: Mapping[str, str | int | float]) -> Amounts:
    """Parse a mapping such as ``{"cpu": "1500m", "memory": "2Gi"}``."""
    return amounts({name: parse_resource(name, value) for name, value in values.items()})


def amounts(values: Mapping[str, int]) -> Amounts:
    """Build amounts from integers already in their units; zeros are dropped."""
    for name, value in values.items():
        if not name:
            raise QuantityError("a resource has no name", hint='name it, for example "cpu"')
        if not 0 <= value <= MAX_AMOUNT:
            raise QuantityError(f"amount {value} of {name} is not between 0 and 2^62")
    return tuple(sorted((name, value) for name, value in values.items() if value))


def amount_of(values: Amounts, name: str) -> int:
    """Return one amount; 0 if it is absent."""
    for known, value in values:
        if known == name:
            return value
    return 0


def add_amounts(parts: Iterable[Amounts]) -> Amounts:
    """Add several sets of amounts, resource by resource."""
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part:
            total[name] = total.get(name, 0) + value
    return amounts(total)


def labels(values: Mapping[str, str]) -> Labels:
    """Build labels from a mapping."""
    return tuple(sorted(values.items()))
