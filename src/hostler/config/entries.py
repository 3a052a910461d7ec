"""What the formats ``Fleet`` and ``Config`` share: version and kind, names, amounts as people write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from hostler.config.documents import Document, kind_of
from hostler.config.key_paths import Path, did_you_mean, quote
from hostler.config.strict import invalid, with_location
from hostler.config.times import parse_duration
from hostler.errors import QuantityError
from hostler.model import Amounts, parse_quantity, parse_ratio, parse_resource

__all__ = [
    "API_VERSION", "MAX_NAME", "Int32", "NewerCounts", "Quantities", "Quantity", "Version", "check_kind", "check_name",
    "means", "read_amounts", "read_duration", "read_ratios", "read_sizes", "write_amounts", "write_ratios",
]  # fmt: skip

API_VERSION = "hostler/v1"
MAX_NAME = 253  # characters, as in Kubernetes

Quantity = str | int | float
Quantities = dict[str, Quantity]


def means(text: str) -> Meta:
    """Return the description of a key, for the schema and the reference."""
    return Meta(description=text)


Version = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
NewerCounts = means("Which of two facts about it is newer: the higher number. 0: no versions.")

# The same few amounts stand in a file thousands of times.
_parse_resource = lru_cache(maxsize=4096, typed=True)(parse_resource)


def check_kind(document: Document, kind: str) -> None:
    """Reject a document that is not of this kind and of the version that we read."""
    version, found = kind_of(document)
    if version != API_VERSION:
        raise invalid(document, ("apiVersion",), f"is {quote(version)}", hint=f"write '{API_VERSION}'")
    if found != kind:
        raise invalid(document, ("kind",), f"is {quote(found)}, not '{kind}'", hint=did_you_mean(found, [kind]))


def check_name(document: Document, path: Path, name: str) -> None:
    """Reject a name that is empty, too long, or has whitespace or control characters."""
    if 0 < len(name) <= MAX_NAME and " " not in name and name.isprintable():
        return
    if not name:
        raise invalid(document, path, "is empty", hint="give it a name")
    if len(name) > MAX_NAME:
        raise invalid(document, path, f"is longer than {MAX_NAME} characters", hint="choose a shorter name")
    raise invalid(document, path, f"is {quote(name)}", hint="names have no whitespace and no control characters")


def read_amounts(
    document: Document, path: Path, values: Mapping[str, Quantity], *, keep_zeros: bool = False
) -> Amounts:
    """Read amounts such as ``{cpu: 1500m}``; zeros are dropped unless they mean something."""
    found = _read_each(document, path, values, _parse_resource)
    return found if keep_zeros else tuple(pair for pair in found if pair[1])


def read_sizes(document: Document, path: Path, values: Mapping[str, Quantity]) -> Amounts:
    """Read sizes in bytes of things with names of their own, such as ``{nginx: 60Mi}``."""
    if "" in values:
        raise invalid(document, (*path, ""), "has no name", hint="name what it is the size of")
    return _read_each(document, path, values, lambda _, value: parse_quantity(value))


def read_duration(document: Document, path: Path, text: str) -> int:
    """Read a duration such as ``1m30s`` to nanoseconds."""
    try:
        return parse_duration(text)
    except QuantityError as error:
        raise with_location(document, path, error) from None


def read_ratios(document: Document, path: Path, values: Mapping[str, Quantity]) -> Amounts:
    """Read overcommit ratios such as ``{cpu: 1.5}`` to millionths."""
    return _read_each(document, path, values, lambda _, value: parse_ratio(value))


def write_amounts(values: Amounts, write: Callable[[str, int], str]) -> dict[str, object]:
    """Write amounts as people do, one resource at a time."""
    return {name: write(name, amount) for name, amount in values}


def write_ratios(values: Amounts) -> dict[str, object]:
    """Write ratios in millionths as plain numbers; a float shows six decimals of them exactly."""
    return {name: ratio // 1_000_000 if ratio % 1_000_000 == 0 else ratio / 1_000_000 for name, ratio in values}


def _read_each(
    document: Document, path: Path, values: Mapping[str, Quantity], parse: Callable[[str, Quantity], int]
) -> Amounts:
    found: list[tuple[str, int]] = []
    for name, value in values.items():
        if not name:
            raise invalid(document, (*path, name), "is a resource without a name", hint='name it, for example "cpu"')
        try:
            found.append((name, parse(name, value)))
        except QuantityError as error:
            raise with_location(document, (*path, name), error) from None
    found.sort()
    return tuple(found)
