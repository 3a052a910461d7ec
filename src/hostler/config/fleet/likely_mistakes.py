"""Warnings about fleet files that are valid and yet hardly meant so: tiny amounts of memory, misspelled resources.

Every warning names file and line. Commands that read fleets print them before they do anything else; nothing is
rejected, because both are allowed. Only the places of a :class:`DeclaredFleet` are used, so it works for manifests,
too: they have a file and no line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from hostler.config.documents import Place
from hostler.config.fleet.input import DeclaredFleet
from hostler.config.key_paths import describe_path, quote
from hostler.model import Amounts, Guest, Host
from hostler.model.nearest_names import nearest_name
from hostler.model.resources import COMMON_RESOURCES, MEMORY, amount_of

__all__ = ["likely_mistakes"]

M = TypeVar("M", Host, Guest)

_TINY_MEMORY = 2**20  # bytes; no host and no guest works with less
_LEAST_UNIT = 1000  # the number of bytes that the smallest suffix, k, stands for: less has none
_FORGOTTEN_UNIT = 2**16  # below this, even a number such as 4096 was rather meant in Mi
_MOST = 3  # warnings of one kind: a file may have the same slip a thousand times


def likely_mistakes(fleet: DeclaredFleet) -> list[str]:
    """Return a warning for each entry of a fleet that is probably a mistake, the first few of each kind."""
    return [
        *_shortened(_misspelled_resources(fleet), "misspelled resources"),
        *_shortened(_tiny_memory(fleet), "amounts of memory are less than 1Mi"),
    ]


def _shortened(found: Iterable[str], what: str) -> list[str]:
    warnings = list(found)
    more = len(warnings) - _MOST
    return warnings if more <= 0 else [*warnings[:_MOST], f"{more:,} more {what}"]


def _misspelled_resources(fleet: DeclaredFleet) -> Iterator[str]:
    for host, (document, path) in _entries(fleet.hosts, fleet.host_places):
        if document.data is None:  # Kubernetes has names of its own, such as pods
            continue
        names = {name for name, _ in host.capacity}
        lacking = [name for name in COMMON_RESOURCES if name not in names]
        for name in sorted(names.difference(COMMON_RESOURCES)):
            if near := nearest_name(name, lacking):
                where = (*path, "capacity")
                place = document.where((*where, name))
                yield f"{place}: unknown resource {quote(name)} in {describe_path(where)}: did you mean {quote(near)}?"


def _tiny_memory(fleet: DeclaredFleet) -> Iterator[str]:
    for host, place in _entries(fleet.hosts, fleet.host_places):
        yield from _about_memory(host.capacity, place, "capacity", f"host {host.name} has")
    for guest, place in _entries(fleet.guests, fleet.guest_places):
        name = f"{guest.spec.namespace}/{guest.name}"
        yield from _about_memory(guest.spec.requests, place, "requests", f"pod {name} asks for")


def _about_memory(amounts: Amounts, place: Place, key: str, who: str) -> Iterator[str]:
    """Warn about an amount below the least; ``who`` begins the sentence if the file has no lines."""
    amount = amount_of(amounts, MEMORY)
    if not 0 < amount < _TINY_MEMORY:
        return
    document, path = place
    where = (*path, key, MEMORY)
    has_no_unit = amount < _LEAST_UNIT or (amount < _FORGOTTEN_UNIT and amount % 1024 == 0)
    rest = f": did you mean {amount}Mi or {amount}Gi?" if has_no_unit else ", which is less than 1Mi"
    if document.data is None:
        yield f"{document.source}: {who} {amount:,} bytes of memory{rest}"
    else:
        yield f"{document.where(where)}: {describe_path(where)} is {amount:,} bytes{rest}"


def _entries(members: Iterable[M], places: Iterable[Place]) -> Iterator[tuple[M, Place]]:
    """Pair the first of the members that one entry of a file stands for with its place."""
    seen: set[Place] = set()
    for member, place in zip(members, places, strict=False):  # a fleet without places is no file
        if place[1] and place in seen:
            continue
        seen.add(place)
        yield member, place
