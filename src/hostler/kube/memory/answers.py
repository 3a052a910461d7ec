"""Responses of the API server in memory: a whole body, or a stream of changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import msgspec

from hostler.kube.memory.calls import LogEntry, ParsedCall
from hostler.kube.memory.error_answers import expired
from hostler.kube.memory.kinds import ServedKind
from hostler.kube.memory.selectors import reads_selectors
from hostler.kube.memory.store import ObjectStore, StoredChange, StoredObject
from hostler.kube.memory.verbs.reads import read_version, with_type
from hostler.runtime.transport import TransportError

__all__ = ["MemoryAnswer", "WatchAnswer"]

_JSON = {"content-type": "application/json"}
_LONGEST_S = 1800.0  # lifetime of a watch without a time limit
_BEFORE_END_S = 2.0  # the last bookmark comes this long before the end


class MemoryAnswer:
    """A complete response. ``entry`` is its line of the server's log."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str] = _JSON) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.entry: LogEntry | None = None

    async def read(self) -> bytes:
        """Return the body."""
        return self.body

    async def line_batches(self) -> AsyncIterator[list[bytes]]:
        """Yield the body's lines at once."""
        yield self.body.splitlines()

    async def close(self) -> None:
        """Do nothing: no resource is held."""


class WatchAnswer(MemoryAnswer):
    """A watch: the changes since a version, then the changes that follow, with bookmarks between."""

    def __init__(self, store: ObjectStore, call: ParsedCall, *, bookmark_s: float, latency_s: float) -> None:
        super().__init__(200, b"")
        self._store = store
        self._call = call
        self._matches = reads_selectors(
            call.kind, call.query.get("labelSelector", ""), call.query.get("fieldSelector", "")
        )
        self._latency_s = latency_s
        self._failure: Exception | None = None
        self.is_closed = False
        now = asyncio.get_running_loop().time()
        self._end = now + float(call.query.get("timeoutSeconds") or _LONGEST_S)
        self._bookmark_s = bookmark_s if call.query.get("allowWatchBookmarks") in ("1", "true") else float("inf")
        self._version = read_version(call.query.get("resourceVersion", ""))

    async def line_batches(self) -> AsyncIterator[list[bytes]]:
        """Yield batches of events until the time of the watch is over."""
        loop = asyncio.get_running_loop()
        lines = self._first_lines()
        if lines and lines[0].startswith(b'{"type":"ERROR"'):
            yield lines
            return
        bookmark_at = self._next_bookmark(loop.time())
        while True:
            if self._failure is not None:
                raise self._failure
            lines += self._new_lines()
            if not lines and loop.time() >= bookmark_at:
                lines = [_line("BOOKMARK", self._call.kind, _bookmark(self._call.kind, self._version))]
                bookmark_at = self._next_bookmark(loop.time())
            if lines:
                if self._latency_s:
                    await asyncio.sleep(self._latency_s)
                yield lines
                lines = []
            elif self.is_closed or loop.time() >= self._end:
                return
            else:
                await self._store.wait(self._call.kind, min(bookmark_at, self._end))

    def _next_bookmark(self, now: float) -> float:
        last = self._end - _BEFORE_END_S
        next_at = min(now + self._bookmark_s, last) if self._bookmark_s < float("inf") else float("inf")
        return next_at if next_at > now else float("inf")

    def _first_lines(self) -> list[bytes]:
        """Begin with all objects if no version is named; reject a version whose history was compacted."""
        store, kind = self._store, self._call.kind
        if self._version == 0:
            self._version = store.version
            rows = sorted(store.entries(kind).items())
            lines = [_line("ADDED", kind, entry.raw) for key, entry in rows if self._sees(key, entry)]
            if self._call.query.get("sendInitialEvents") == "true":
                lines.append(_line("BOOKMARK", kind, _bookmark(kind, self._version, is_first=True)))
            return lines
        if self._version < store.compacted:
            status = expired(f"too old resource version: {self._version} ({store.compacted})").body
            return [b'{"type":"ERROR","object":%s}' % status]
        return []

    def _new_lines(self) -> list[bytes]:
        """Return the changes since; an object that leaves the selection is sent as deleted."""
        store, kind = self._store, self._call.kind
        lines = []
        for change in store.changes_after(kind, self._version):
            line = self._line_of_change(change)
            if line:
                lines.append(line)
        self._version = max(self._version, store.version)
        return lines

    def _line_of_change(self, change: StoredChange) -> bytes:
        kind = self._call.kind
        was = change.previous is not None and self._sees(change.key, change.previous)
        if change.type == "DELETED":
            return _line("DELETED", kind, change.entry.raw) if was else b""
        if self._sees(change.key, change.entry):
            return _line("MODIFIED" if was else "ADDED", kind, change.entry.raw)
        if not was or change.previous is None:
            return b""
        last = change.previous.item
        metadata = {**last["metadata"], "resourceVersion": str(change.version)}
        return _line("DELETED", kind, msgspec.json.encode({**last, "metadata": metadata}))

    def _sees(self, key: tuple[str, str], entry: StoredObject) -> bool:
        if self._call.namespace and key[0] != self._call.namespace:
            return False
        if self._call.name and key[1] != self._call.name:
            return False
        return self._matches is None or self._matches(entry.item)

    def abort(self, message: str = "the connection was cut") -> None:
        """End the stream like a broken connection, also while its reader waits."""
        self._failure = TransportError(message, may_have_acted=False)
        self._store.wake(self._call.kind)

    async def close(self) -> None:
        """End the stream."""
        self.is_closed = True
        self._store.wake(self._call.kind)


def _line(word: str, kind: ServedKind, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}' % (word.encode(), with_type(kind, raw))


def _bookmark(kind: ServedKind, version: int, *, is_first: bool = False) -> bytes:
    mark = b',"annotations":{"k8s.io/initial-events-end":"true"}' if is_first else b""
    parts = b',"spec":{"containers":null},"status":{}' if kind.plural == "pods" else b""
    return b'{"metadata":{"resourceVersion":"%d"%s}%s}' % (version, mark, parts)
