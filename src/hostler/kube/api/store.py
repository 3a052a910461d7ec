"""What a reflector knows of a collection, and what each list or event changes about it; pure.

An event may come twice, and an old one after a newer: neither changes anything. A list is the truth at its time:
what it lacks is gone, even where no event said so. Used by ``reflector``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

import msgspec

from hostler.kube.api.client import Broken, Change
from hostler.kube.api.decoding import key_of, uid_of, version_of
from hostler.kube.api.resources import Item

__all__ = ["Store", "Update", "is_newer"]


class Update(msgspec.Struct, Generic[Item]):
    """One object changed: ``old`` None means that it is new, ``new`` None that it is gone."""

    key: tuple[str, str]
    old: Item | Broken | None
    new: Item | Broken | None


class Store(Generic[Item]):
    """The objects by namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Item | Broken] = {}

    def take_list(self, items: Iterable[Item | Broken]) -> list[Update[Item]]:
        """Make the objects those of a list; return what that changed, deletions first."""
        listed = {key_of(item): item for item in items}
        updates: list[Update[Item]] = []
        for key in [key for key in self.objects if key not in listed]:
            self._remove(key, updates)
        for key, new in listed.items():
            old = self.objects.get(key)
            # A list is taken even where it looks older: the server's data may have been set back.
            if old is None or uid_of(old) != uid_of(new) or version_of(old) != version_of(new):
                self._put(key, new, updates)
        return updates

    def take_change(self, change: Change[Item], known: str, updates: list[Update[Item]]) -> None:
        """Apply an event and append what it changed, if it is news; up to the version ``known`` all was told."""
        item = change.item
        if item is None:
            return
        key = key_of(item)
        old = self.objects.get(key)
        if change.kind == "deleted":
            if old is not None and uid_of(old) == uid_of(item):
                self._remove(key, updates)
        # An old event about an object that is not here is about one that went since.
        elif is_newer(version_of(item), known if old is None else version_of(old)):
            self._put(key, item, updates)

    def _put(self, key: tuple[str, str], new: Item | Broken, updates: list[Update[Item]]) -> None:
        """Put an object; one with another uid under the same name went first."""
        old = self.objects.get(key)
        if old is not None and uid_of(old) != uid_of(new):
            self._remove(key, updates)
            old = None
        self.objects[key] = new
        updates.append(Update(key, old, new))

    def _remove(self, key: tuple[str, str], updates: list[Update[Item]]) -> None:
        updates.append(Update(key, self.objects.pop(key), None))


def is_newer(version: str, than: str) -> bool:
    """Compare resource versions as numbers; what is no number counts as newer when it differs."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
