"""Amounts and ages as pages write them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hostler.control.vms.spec import DiskSpec
from hostler.model import CPU
from hostler.model.resources import MEMORY, STORAGE, parse_resource

__all__ = [
    "ago_text",
    "amount_text",
    "bytes_text",
    "cpu_text",
    "disks_text",
    "percent_used",
    "size_text",
    "spec_amount_text",
    "time_text",
]  # fmt: skip

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SECOND = 1_000_000_000
_AGES = ((86400, "d"), (3600, "h"), (60, "min"))


def cpu_text(millis: int) -> str:
    """Write processors: ``2``, ``0.5``, ``1,024``."""
    return f"{millis / 1000:,.2f}".rstrip("0").rstrip(".") if millis % 1000 else f"{millis // 1000:,}"


def bytes_text(amount: int) -> str:
    """Write bytes in the largest unit that leaves a readable number: ``4 GiB``, ``1.5 TiB``."""
    value, unit = float(amount), 0
    while abs(value) >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    digits = 0 if value >= 100 or value == int(value) else 1
    return f"{value:,.{digits}f} {_UNITS[unit]}"


def amount_text(resource: str, amount: int) -> str:
    """Write an amount of a resource as people say it."""
    if resource == CPU:
        return cpu_text(amount)
    if resource in (MEMORY, STORAGE):
        return bytes_text(amount)
    return f"{amount:,}"


def spec_amount_text(value: str | int | float, resource: str) -> str:
    """Write an amount of a spec, a quota or a reserve: ``500m`` of CPU as ``0.5``, ``4Gi`` of memory as ``4 GiB``."""
    return amount_text(resource, parse_resource(resource, value))


def percent_used(used: int, total: int) -> int | None:
    """Return how many percent are used, or None if the total is 0. Below the total it is never 100."""
    if total <= 0:
        return None
    percent = round(100 * used / total)
    return 99 if percent == 100 and used < total else percent


def age_text(then_ns: int, now_ns: int) -> str:
    """Write how long ago something was: ``12 s``, ``3 min``, ``5 h``, ``2 d``."""
    seconds = max(now_ns - then_ns, 0) // _SECOND
    for size, name in _AGES:
        if seconds >= size:
            return f"{seconds // size} {name}"
    return f"{seconds} s"


def ago_text(then: str, now_ns: int) -> str:
    """Write how long ago a time of REST was."""
    return age_text(int(datetime.fromisoformat(then).timestamp()) * _SECOND, now_ns)


def size_text(size: str | int | float) -> str:
    """Write a size of a spec: ``4Gi`` as ``4 GiB``, and ``1395864372``, which is 1.3Gi there, as ``1.3 GiB``."""
    return bytes_text(parse_resource(MEMORY, size))


def disks_text(disks: Sequence[DiskSpec]) -> str:
    """Write how large the disks of a VM are together."""
    total = sum(parse_resource(STORAGE, disk.size) for disk in disks)
    return bytes_text(total) if disks else "\N{EN DASH}"


def time_text(at_ns: int) -> str:
    """Write a time as REST does, to the second."""
    return datetime.fromtimestamp(at_ns // _SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
