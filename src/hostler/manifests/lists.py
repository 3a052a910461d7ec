"""Kubernetes objects to hosts and guests: single ones, and lists as ``kubectl get -o json`` prints them.

Kinds that we do not know are noted and skipped, so that ``kubectl get all -o json`` can be fed as it is.
Used by the command line and the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from hostler.errors import DuplicateNameError, InputError
from hostler.manifests.decoding import read_node, read_pod
from hostler.manifests.nodes import node_to_host
from hostler.manifests.places import Note, node_place, pod_place
from hostler.manifests.pods import pod_to_guest
from hostler.model import Guest, GuestSpec, Host

__all__ = ["Manifests", "is_manifest", "read_manifests"]

OWN_GROUP = "hostler/"
_CORE = "v1"
_Item: TypeAlias = tuple[str, str, Mapping[str, object]]
# What the items of a list are when they do not say so themselves.
_ITEM_KINDS = {"List": "", "NodeList": "Node", "PodList": "Pod"}
_MAX_DEPTH = 8  # lists in lists


class Manifests(msgspec.Struct, frozen=True):
    """What a set of Kubernetes objects says: hosts and guests in the order given, and what does not count."""

    hosts: tuple[Host, ...] = ()
    guests: tuple[Guest, ...] = ()
    notes: tuple[Note, ...] = ()


def is_manifest(data: object) -> bool:
    """Tell a Kubernetes object from our own format and from anything else."""
    if not isinstance(data, Mapping):
        return False
    version, kind = data.get("apiVersion"), data.get("kind")
    return isinstance(version, str) and isinstance(kind, str) and not version.startswith(OWN_GROUP)


def read_manifests(objects: Iterable[Mapping[str, object]]) -> Manifests:
    """Read Kubernetes objects; pods of equal content share one spec object."""
    reader = _Reader()
    for data in objects:
        for version, kind, item in _items(data):
            if version == _CORE and kind == "Node":
                reader.add_node(item)
            elif version == _CORE and kind == "Pod":
                reader.add_pod(item)
            else:
                reader.notes.append(Note(_place_of_other(kind, item), "", "ignored"))
    return Manifests(tuple(reader.hosts), tuple(reader.guests), tuple(reader.notes))


class _Reader:
    """What has been read so far, and which names and uids are taken by whom."""

    def __init__(self) -> None:
        self.hosts: list[Host] = []
        self.guests: list[Guest] = []
        self.notes: list[Note] = []
        self._specs: dict[GuestSpec, GuestSpec] = {}
        self._places: set[str] = set()
        self._host_uids: dict[str, str] = {}
        self._guest_uids: dict[str, str] = {}

    def add_node(self, data: Mapping[str, object]) -> None:
        host, notes = node_to_host(read_node(data))
        self._claim(node_place(host.name), self._host_uids, host.uid)
        self.hosts.append(host)
        self.notes += notes

    def add_pod(self, data: Mapping[str, object]) -> None:
        pod = read_pod(data)
        guest, notes = pod_to_guest(pod, self._specs)
        place = pod_place(pod.metadata.namespace, pod.metadata.name)
        self._claim(place, self._guest_uids, guest.uid if guest is not None else place)
        if guest is not None:
            self.guests.append(guest)
        self.notes += notes

    def _claim(self, place: str, owners: dict[str, str], uid: str) -> None:
        if place in self._places:
            raise DuplicateNameError(f"{place} is given twice", hint="was the same file given twice?")
        self._places.add(place)
        owner = owners.setdefault(uid, place)
        if owner != place:
            raise DuplicateNameError(f"{owner} and {place} have the same uid {uid!r}", hint="drop metadata.uid")


def _items(data: object, item_kind: str = "", path: str = "", depth: int = 0) -> Iterator[_Item]:
    """Walk through an object, or through the items of a list, with the version and kind of each."""
    where = f"{path}: " if path else ""
    if not isinstance(data, Mapping):
        raise InputError(f"{where}not a Kubernetes object", hint="an object is a mapping with apiVersion and kind")
    version = data.get("apiVersion") or (_CORE if item_kind else "")
    kind = data.get("kind") or item_kind
    if not isinstance(version, str) or not isinstance(kind, str) or not version or not kind:
        raise InputError(
            f"{where}an object has no apiVersion or no kind", hint="a Pod has apiVersion: v1 and kind: Pod"
        )
    if version != _CORE or kind not in _ITEM_KINDS:
        yield version, kind, data
        return
    items = data.get("items") or ()
    if depth >= _MAX_DEPTH or isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise InputError(f"{where}{kind}: items is not a list of objects", hint="kubectl get -o json prints such lists")
    for at, item in enumerate(items):
        yield from _items(item, _ITEM_KINDS[kind], f"{path}.items[{at}]" if path else f"items[{at}]", depth + 1)


def _place_of_other(kind: str, data: Mapping[str, object]) -> str:
    metadata = data.get("metadata")
    if not isinstance(metadata, Mapping) or not metadata.get("name"):
        return kind
    namespace = metadata.get("namespace")
    return f"{kind} {namespace}/{metadata['name']}" if namespace else f"{kind} {metadata['name']}"
