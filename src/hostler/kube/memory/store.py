"""The objects of the API server in memory, and the history of all their changes.

One counter gives every change its version, as etcd's revision does. Objects are plain JSON and never changed in place:
a write stores a new one. The whole history is kept for the checks of invariants; ``compact`` only forbids clients to
read it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from hostler.kube.memory.kinds import ServedKind
from hostler.runtime.clock import Clock

__all__ = ["Key", "ObjectStore", "StoredChange", "StoredObject"]

Json = dict[str, Any]
Key = tuple[str, str]  # namespace and name

_encode = msgspec.json.Encoder().encode
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # the alphabet of generated names


class StoredObject:
    """One state of an object. Its JSON is made once and on demand; kind and version are not part of it."""

    __slots__ = ("_raw", "item", "version")

    def __init__(self, item: Json, version: int) -> None:
        self.item = item
        self.version = version
        self._raw = b""

    @property
    def raw(self) -> bytes:
        """Return the object as JSON."""
        self._raw = self._raw or _encode(self.item)
        return self._raw


class StoredChange(msgspec.Struct, frozen=True):
    """One change. ``previous`` is None for a new object; a deletion carries the last state."""

    version: int
    type: str
    kind: ServedKind
    key: Key
    entry: StoredObject
    previous: StoredObject | None
    time: int


class ObjectStore:
    """Objects by kind and key, and their history."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.version = 1
        self.compacted = 0
        self.history: list[StoredChange] = []
        self._kinds: dict[ServedKind, dict[Key, StoredObject]] = {}
        self._changes: dict[ServedKind, list[StoredChange]] = {}
        self._waiting: dict[ServedKind, list[asyncio.Future[None]]] = {}
        self._listeners: list[Callable[[StoredChange], None]] = []
        self._made = 0

    def entries(self, kind: ServedKind) -> dict[Key, StoredObject]:
        """Return all objects of a kind."""
        return self._kinds.setdefault(kind, {})

    def entries_at(self, kind: ServedKind, version: int) -> dict[Key, StoredObject]:
        """Return all objects of a kind as they were at a version."""
        entries = self.entries(kind)
        changes = self._changes.get(kind, [])
        if not changes or changes[-1].version <= version:
            return entries
        entries = dict(entries)
        for change in reversed(changes):
            if change.version <= version:
                break
            if change.previous is None:
                entries.pop(change.key, None)
            else:
                entries[change.key] = change.previous
        return entries

    def changes_after(self, kind: ServedKind, version: int) -> list[StoredChange]:
        """Return the changes of a kind after a version."""
        changes = self._changes.get(kind, [])
        if not changes or changes[-1].version <= version:
            return []
        return changes[bisect_right(changes, version, key=lambda change: change.version) :]

    def put(self, kind: ServedKind, key: Key, item: Json) -> StoredObject:
        """Write an object under a new version."""
        self.version += 1
        metadata = dict(item["metadata"])
        metadata["resourceVersion"] = str(self.version)
        entry = StoredObject({**item, "metadata": metadata}, self.version)
        entries = self.entries(kind)
        previous = entries.get(key)
        entries[key] = entry
        self._record("ADDED" if previous is None else "MODIFIED", kind, key, entry, previous)
        return entry

    def remove(self, kind: ServedKind, key: Key, item: Json | None = None) -> StoredObject:
        """Delete an object; its last state, or ``item``, gets the version of the deletion."""
        self.version += 1
        previous = self.entries(kind).pop(key)
        last = previous.item if item is None else item
        metadata = {**last["metadata"], "resourceVersion": str(self.version)}
        entry = StoredObject({**last, "metadata": metadata}, self.version)
        self._record("DELETED", kind, key, entry, previous)
        return entry

    def _record(
        self, word: str, kind: ServedKind, key: Key, entry: StoredObject, previous: StoredObject | None
    ) -> None:
        change = StoredChange(self.version, word, kind, key, entry, previous, self.clock.now())
        self.history.append(change)
        self._changes.setdefault(kind, []).append(change)
        self.wake(kind)
        for listener in self._listeners:
            listener(change)

    def listen(self, listener: Callable[[StoredChange], None]) -> None:
        """Call a function at every change, within the write: for components such as a kubelet."""
        self._listeners.append(listener)

    def wake(self, kind: ServedKind) -> None:
        """Wake the watches on a kind."""
        for waiter in self._waiting.pop(kind, ()):
            _finish(waiter)

    async def wait(self, kind: ServedKind, until: float) -> None:
        """Wait for a change of a kind, at most until a time of the loop."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.setdefault(kind, []).append(waiter)
        timer = loop.call_at(until, _finish, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def timestamp(self, later_s: float = 0.0) -> str:
        """Return the time in the format of objects."""
        return _timestamp(int(self.clock.now() / 1e9 + later_s))

    def new_uid(self) -> str:
        """Return an unused uid."""
        self._made += 1
        return f"{self._made:08x}-0000-4000-8000-{self._made:012x}"

    def new_ending(self) -> str:
        """Return an unused name suffix of five letters."""
        self._made += 1
        number, word = self._made * 2_654_435_761 % 27**5, ""
        for _ in range(5):
            number, digit = divmod(number, 27)
            word += _LETTERS[digit]
        return word


@lru_cache(maxsize=1024)
def _timestamp(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
