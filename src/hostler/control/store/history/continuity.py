"""Detects a log that went back: a server that takes over may lack committed entries.

PostgreSQL acknowledges COMMIT when its own disk has it. An asynchronous standby that is promoted then may have less,
and continues with other entries under the same numbers. So this process remembers the newest entry that it wrote or
read, with a digest of its bytes. It looks for that entry on every new connection, and each writing transaction compares
the head of the log.

Invariant: once the log went back, this process never writes again, because its decisions and the agents' orders rest on
lost entries. It does not exit: users can still read. A later process begins with what this one knew (``resume``) if a
file of this machine has it (``known_heads``), and does not serve.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, select

from hostler.control.store.errors import DatabaseUnavailableError, LogWentBackError, own_copy
from hostler.control.store.history.log import StoredEntry
from hostler.control.store.tables import log, log_head

__all__ = ["LogContinuity", "Tip", "digest_of_entry"]

_CHECKED = "hostler_history_checked"  # in what SQLAlchemy remembers of a connection of the driver
_HEAD = select(log_head.c.seq, log_head.c.forgotten)
_FIELDS = ("at_ns", "kind", "body", "actor", "project", "subject", "seq")
_ENTRY = select(*(log.c[name] for name in _FIELDS)).where(log.c.seq == bindparam("number"))
_HINT = (
    "if the former server or file still has all of it, stop all replicas and give them that one; else stop them, run "
    "'hostler restore --in-place', and start them again: see 'A server that lost commits' in the guide on running"
)
_GONE_HINT = (
    "stop the service, put back the file that it used, or restore a backup with 'hostler restore', and start it"
)


class Tip(NamedTuple):
    """The newest known entry: its number and a digest of its bytes."""

    seq: int = 0
    digest: bytes = b""


def digest_of_entry(entry: StoredEntry) -> bytes:
    """Return a short digest that differs if anything stored of two entries differs."""
    return blake2b(msgspec.msgpack.encode([getattr(entry, name) for name in _FIELDS]), digest_size=16).digest()


class LogContinuity:
    """What one process knows of the log; for any thread."""

    def __init__(self, is_standby: Callable[[Connection], bool]) -> None:
        self._is_standby = is_standby
        self._lock = threading.Lock()
        self._tip = Tip()
        self._went_back: LogWentBackError | None = None
        self._watcher: Callable[[Tip], None] | None = None

    @property
    def tip(self) -> Tip:
        """Return the newest entry that is known to be committed."""
        return self._tip

    @property
    def went_back(self) -> LogWentBackError | None:
        """Return what is wrong once the log lacked a known entry; empty until then."""
        return self._went_back

    def note(self, entry: StoredEntry) -> None:
        """Remember an entry that was committed here, or read."""
        with self._lock:
            if entry.seq <= self._tip.seq:
                return
            self._tip = tip = Tip(entry.seq, digest_of_entry(entry))
        if self._watcher is not None:
            self._watcher(tip)

    def watch(self, watcher: Callable[[Tip], None] | None) -> None:
        """Call a function with each new tip, in the thread that noted it; None ends that."""
        self._watcher = watcher

    def resume(self, connection: Connection, tip: Tip, source: str) -> None:
        """Begin with what an earlier process knew; LogWentBackError if the log lacks it. ``source`` is for people."""
        with self._lock:
            if tip.seq > self._tip.seq:
                self._tip = tip
        self._compare(connection, tip, source)
        self.check()

    def end(self, why: str) -> None:
        """Stop writing for good: what is committed here would be lost."""
        with self._lock:
            if self._went_back is None:
                self._went_back = LogWentBackError(f"changes would be lost: {why}", hint=_GONE_HINT)

    def check(self) -> None:
        """Raise LogWentBackError once the log went back."""
        if self._went_back is not None:
            raise own_copy(self._went_back)

    def check_writing(self, connection: Connection, head: int) -> None:
        """Check a transaction that has locked the head of the log, so no other process can write meanwhile.

        The head is compared each time, since it is at hand; the entry only on a new connection.
        """
        self.check()
        tip = self._tip
        if head < tip.seq or not connection.info.get(_CHECKED):
            self._compare(connection, tip)
            self.check()
            connection.info[_CHECKED] = True

    def check_reading(self, connection: Connection, tip: Tip) -> None:
        """Check a new connection for reading; ``tip`` is from before its snapshot, or it could lack the entry.

        Reading continues if the log went back; only writing ends.
        """
        if self._went_back is None and not connection.info.get(_CHECKED):
            self._compare(connection, tip)
            connection.info[_CHECKED] = True

    def _compare(self, connection: Connection, tip: Tip, source: str = "") -> None:
        what = _difference(connection, tip)
        if not what:
            return
        what = f"{what} ({source})" if source else what
        if self._is_standby(connection):  # it may have the rest in a moment, and it takes no writes
            hint = "name the server that may be written to: target_session_attrs=read-write finds it"
            raise DatabaseUnavailableError(f"the server is a standby that is behind: {what}", hint=hint)
        with self._lock:
            if self._went_back is None:
                self._went_back = LogWentBackError(f"the database lost changes that were committed: {what}", hint=_HINT)


def _difference(connection: Connection, tip: Tip) -> str:
    """Say how the log differs from what is known; empty if it does not, or if the entry was removed since."""
    head, forgotten = connection.execute(_HEAD).one()
    if head < tip.seq:
        return f"its log ends at entry {head}, and entry {tip.seq} was committed"
    if tip.seq <= forgotten:
        return ""
    row = connection.execute(_ENTRY, {"number": tip.seq}).mappings().one_or_none()
    if row is None or digest_of_entry(StoredEntry(**row)) != tip.digest:
        return f"entry {tip.seq} of its log is not the one that was committed"
    return ""
