"""Kubernetes objects to the model: single ones, and lists as ``kubectl get -o json`` prints them.

Kinds that we do not know are noted and skipped, so that ``kubectl get all -o json`` can be fed as it is.
Used by the command line and the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from hostler.errors import InputError
from hostler.manifests.kinds import list_item_kind
from hostler.manifests.places import Note
from hostler.manifests.reader import Reader
from hostler.model import Budget, Gang, Guest, Host, Labels

__all__ = ["Manifests", "is_manifest", "read_manifests"]

OWN_GROUP = "hostler/"
_Item: TypeAlias = tuple[str, str, Mapping[str, object]]
_MAX_DEPTH = 8  # lists in lists


class Manifests(msgspec.Struct, frozen=True):
    """What a set of Kubernetes objects says, in the order given, and what does not count.

    ``namespaces`` has the labels of every namespace that is given or that a guest is in. The sources, in the order of
    hosts and guests, are those that ``read_manifests`` was told.
    """

    hosts: tuple[Host, ...] = ()
    guests: tuple[Guest, ...] = ()
    notes: tuple[Note, ...] = ()
    namespaces: dict[str, Labels] = {}
    gangs: tuple[Gang, ...] = ()
    budgets: tuple[Budget, ...] = ()
    host_sources: tuple[str, ...] = ()
    guest_sources: tuple[str, ...] = ()


def is_manifest(data: object) -> bool:
    """Tell a Kubernetes object from our own format and from anything else."""
    if not isinstance(data, Mapping):
        return False
    version, kind = data.get("apiVersion"), data.get("kind")
    return isinstance(version, str) and isinstance(kind, str) and not version.startswith(OWN_GROUP)


def read_manifests(
    objects: Iterable[Mapping[str, object]],
    *,
    sources: Sequence[str] = (),
    more_hosts: Iterable[Host] = (),
    seed_annotations: bool = False,
) -> Manifests:
    """Read all Kubernetes objects of an input together; pods of equal content share one spec object.

    ``sources`` names, in the order of ``objects``, the files that they stand in. ``more_hosts`` come from elsewhere and
    get daemons too. ``seed_annotations`` lets the annotations ``priority`` and ``pod-group`` of pods count: a gang then
    needs all members that the input has. It is off by default, because any user could promote himself.
    """
    reader = Reader(seed_annotations=seed_annotations, more_hosts=more_hosts)
    for at, data in enumerate(objects):
        source = sources[at] if sources else ""
        for version, kind, item in _items(data, where=source):
            reader.add(version, kind, item, source)
    reader.finish()
    return Manifests(
        hosts=tuple(reader.hosts),
        guests=tuple(reader.guests),
        notes=reader.notes,
        namespaces=reader.namespaces,
        gangs=tuple(reader.gangs.values()),
        budgets=tuple(reader.budgets),
        host_sources=tuple(reader.host_sources) if sources else (),
        guest_sources=tuple(reader.guest_sources) if sources else (),
    )


def _items(
    data: object, *, where: str = "", item_version: str = "", item_kind: str = "", path: str = "", depth: int = 0
) -> Iterator[_Item]:
    """Walk through an object, or through the items of a list, with the version and kind of each."""
    prefix = "".join(f"{part}: " for part in (where, path) if part)
    if not isinstance(data, Mapping):
        raise InputError(f"{prefix}not a Kubernetes object", hint="an object is a mapping with apiVersion and kind")
    version = data.get("apiVersion") or item_version
    kind = data.get("kind") or item_kind
    if not isinstance(version, str) or not isinstance(kind, str) or not version or not kind:
        raise InputError(
            f"{prefix}an object has no apiVersion or no kind", hint="a Pod has apiVersion: v1 and kind: Pod"
        )
    inner_kind = list_item_kind(version, kind)
    if inner_kind is None:
        yield version, kind, data
        return
    items = data.get("items") or ()
    if depth >= _MAX_DEPTH or isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise InputError(
            f"{prefix}{kind}: items is not a list of objects", hint="kubectl get -o json prints such lists"
        )
    for at, item in enumerate(items):
        yield from _items(
            item,
            where=where,
            item_version=version if inner_kind else "",
            item_kind=inner_kind,
            path=f"{path}.items[{at}]" if path else f"items[{at}]",
            depth=depth + 1,
        )
