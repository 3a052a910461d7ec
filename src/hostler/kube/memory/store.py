"""The objects of the API server in memory, and everything that ever happened to them.

One counter gives every change its version, as etcd's revision does. Objects are plain JSON and never changed in place:
a write puts a new one. The whole history stays for the checks of invariants; ``compact`` only forbids to read it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from hostler.kube.api.clock import Clock
from hostler.kube.memory.kinds import Kind

__all__ = ["Change", "Entry", "Key", "Store"]

Json = dict[str, Any]
Key = tuple[str, str]  # namespace and name

_encode = msgspec.json.Encoder().encode
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # what the real server makes names of


class Entry:
    """A state of one object, with its JSON made once and on demand; kind and version are not part of it."""

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


class Change(msgspec.Struct, frozen=True):
    """One step of history. ``previous`` is None for a new object; a deletion carries the last state."""

    version: int
    type: str
    kind: Kind
    key: Key
    entry: Entry
    previous: Entry | None
    time: int


class Store:
    """Objects by kind and key, and their history."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.version = 1
        self.compacted = 0
        self.history: list[Change] = []
        self._kinds: dict[Kind, dict[Key, Entry]] = {}
        self._changes: dict[Kind, list[Change]] = {}
        self._waiting: dict[Kind, list[asyncio.Future[None]]] = {}
        self._listeners: list[Callable[[Change], None]] = []
        self._made = 0

    def entries(self, kind: Kind) -> dict[Key, Entry]:
        """Return all objects of a kind."""
        return self._kinds.setdefault(kind, {})

    def entries_at(self, kind: Kind, version: int) -> dict[Key, Entry]:
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

    def changes_after(self, kind: Kind, version: int) -> list[Change]:
        """Return what happened to a kind after a version."""
        changes = self._changes.get(kind, [])
        if not changes or changes[-1].version <= version:
            return []
        return changes[bisect_right(changes, version, key=lambda change: change.version) :]

    def put(self, kind: Kind, key: Key, item: Json) -> Entry:
        """Write an object under a new version."""
        self.version += 1
        metadata = dict(item["metadata"])
        metadata["resourceVersion"] = str(self.version)
        entry = Entry({**item, "metadata": metadata}, self.version)
        entries = self.entries(kind)
        previous = entries.get(key)
        entries[key] = entry
        self._record("ADDED" if previous is None else "MODIFIED", kind, key, entry, previous)
        return entry

    def remove(self, kind: Kind, key: Key, item: Json | None = None) -> Entry:
        """Take an object away; its last state, or ``item``, is told with the version of the deletion."""
        self.version += 1
        previous = self.entries(kind).pop(key)
        last = previous.item if item is None else item
        metadata = {**last["metadata"], "resourceVersion": str(self.version)}
        entry = Entry({**last, "metadata": metadata}, self.version)
        self._record("DELETED", kind, key, entry, previous)
        return entry

    def _record(self, word: str, kind: Kind, key: Key, entry: Entry, previous: Entry | None) -> None:
        change = Change(self.version, word, kind, key, entry, previous, self.clock.now())
        self.history.append(change)
        self._changes.setdefault(kind, []).append(change)
        self.wake(kind)
        for listener in self._listeners:
            listener(change)

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call a function at every change, within the write: for what stands beside the server, such as a kubelet."""
        self._listeners.append(listener)

    def wake(self, kind: Kind) -> None:
        """Wake the watches on a kind."""
        for waiter in self._waiting.pop(kind, ()):
            _finish(waiter)

    async def wait(self, kind: Kind, until: float) -> None:
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
        """Return the time as objects write it."""
        return _timestamp(int(self.clock.now() / 1e9 + later_s))

    def new_uid(self) -> str:
        """Return a uid that no object had."""
        self._made += 1
        return f"{self._made:08x}-0000-4000-8000-{self._made:012x}"

    def new_ending(self) -> str:
        """Return five letters that no name ended in yet."""
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
