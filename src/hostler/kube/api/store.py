"""A reflector's copy of a collection, and what each list or event changes in it; pure.

An event may come twice, and an old one after a newer one: neither changes anything. A list is the truth at its time:
objects that it lacks are gone, even if no event said so. Used by ``reflector``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

import msgspec

from hostler.kube.api.client import UndecodableObject, WatchEvent
from hostler.kube.api.decoding import key_of, uid_of, version_of
from hostler.kube.api.resources import Item

__all__ = ["CollectionStore", "ObjectUpdate", "is_newer"]


class ObjectUpdate(msgspec.Struct, Generic[Item]):
    """One object changed. ``old`` is None if it is new, ``new`` is None if it is gone."""

    key: tuple[str, str]
    old: Item | UndecodableObject | None
    new: Item | UndecodableObject | None


class CollectionStore(Generic[Item]):
    """The objects by namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Item | UndecodableObject] = {}

    def take_list(self, items: Iterable[Item | UndecodableObject]) -> list[ObjectUpdate[Item]]:
        """Replace all objects by those of a list; return the differences, deletions first."""
        listed = {key_of(item): item for item in items}
        updates: list[ObjectUpdate[Item]] = []
        for key in [key for key in self.objects if key not in listed]:
            self._remove(key, updates)
        for key, new in listed.items():
            old = self.objects.get(key)
            # A list is applied even if it looks older: the server may have been restored from a backup.
            if old is None or uid_of(old) != uid_of(new) or version_of(old) != version_of(new):
                self._put(key, new, updates)
        return updates

    def take_change(self, change: WatchEvent[Item], known: str, updates: list[ObjectUpdate[Item]]) -> None:
        """Apply an event and append the difference, if it is new; all up to version ``known`` was seen."""
        item = change.item
        if item is None:
            return
        key = key_of(item)
        old = self.objects.get(key)
        if change.kind == "deleted":
            if old is not None and uid_of(old) == uid_of(item):
                self._remove(key, updates)
        # An old event about an unknown object is about one that is gone since.
        elif is_newer(version_of(item), known if old is None else version_of(old)):
            self._put(key, item, updates)

    def _put(self, key: tuple[str, str], new: Item | UndecodableObject, updates: list[ObjectUpdate[Item]]) -> None:
        """Put an object. If it replaces one with another uid, that one is deleted first."""
        old = self.objects.get(key)
        if old is not None and uid_of(old) != uid_of(new):
            self._remove(key, updates)
            old = None
        self.objects[key] = new
        updates.append(ObjectUpdate(key, old, new))

    def _remove(self, key: tuple[str, str], updates: list[ObjectUpdate[Item]]) -> None:
        updates.append(ObjectUpdate(key, self.objects.pop(key), None))


def is_newer(version: str, than: str) -> bool:
    """Compare resource versions as numbers. A version that is no number counts as newer if it differs."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
