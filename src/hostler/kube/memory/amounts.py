"""What pods ask for and nodes have, computed a second time: checks of a scheduler must not use its own arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any

__all__ = ["allocatable_of", "amount", "has_ended", "requests_of"]

Json = dict[str, Any]
Amounts = dict[str, int]

_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BILLION = 1_000_000_000


@lru_cache(maxsize=4096)
def amount(quantity: str | float) -> int:
    """Return a quantity in billionths of its unit."""
    text = str(quantity)
    number = text.rstrip("KMGTPEikmnu")
    suffix = text[len(number) :]
    factor = Decimal(_BINARY[suffix]) if suffix in _BINARY else Decimal(10) ** _DECIMAL[suffix]
    return int(Decimal(number) * factor * _BILLION)


def _read(quantities: Json | None) -> Amounts:
    return {name: amount(value) for name, value in (quantities or {}).items()}


def _add(*parts: Amounts) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def _largest(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = max(total.get(name, 0), value)
    return total


def _asks(container: Json) -> Amounts:
    return _read((container.get("resources") or {}).get("requests"))


def requests_of(pod: Json) -> Amounts:
    """Return what a pod takes of a node while it runs, one of ``pods`` included."""
    spec = pod["spec"]
    sidecars: Amounts = {}
    peaks: list[Amounts] = []
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars = _add(sidecars, _asks(container))
            peaks.append(sidecars)
        else:
            peaks.append(_add(sidecars, _asks(container)))
    running = _add(sidecars, *(_asks(container) for container in spec.get("containers") or ()))
    total = _largest((running, *peaks))
    total |= _read((spec.get("resources") or {}).get("requests"))
    return _add(total, _read(spec.get("overhead")), {"pods": _BILLION})


def allocatable_of(node: Json) -> Amounts:
    """Return what a node has for pods."""
    return _read((node.get("status") or {}).get("allocatable"))


def has_ended(pod: Json) -> bool:
    """Say whether a pod takes nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
