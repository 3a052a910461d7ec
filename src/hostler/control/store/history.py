"""Whether the log is still the one that this process knows: a server that takes over may lack what was committed.

PostgreSQL answers COMMIT when its own disk has it. An asynchronous standby that is promoted then may have less, and
goes on with other entries under the same numbers. So the newest entry that this process wrote or read is remembered,
with a digest of its bytes, and looked for on every new connection; each transaction that writes compares the head.

Once the log went back this process never writes again: what it decided and told agents rests on entries that are gone.
It does not end by itself: users still read. One that is started later begins with what the process before it knew
(``resume``), if that stands in a file of this machine (``known_heads``), and does not serve.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, select

from hostler.control.store.errors import DatabaseUnavailableError, LogWentBackError, own_copy
from hostler.control.store.log import Entry
from hostler.control.store.tables import log, log_head

__all__ = ["History", "Tip", "digest_of_entry"]

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
    """The newest entry that is known, by its number and a digest of its bytes."""

    seq: int = 0
    digest: bytes = b""


def digest_of_entry(entry: Entry) -> bytes:
    """Return a few bytes that differ when anything that is stored of two entries does."""
    return blake2b(msgspec.msgpack.encode([getattr(entry, name) for name in _FIELDS]), digest_size=16).digest()


class History:
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
        """Return what is wrong once the log lacked something that is known; nothing until then."""
        return self._went_back

    def note(self, entry: Entry) -> None:
        """Remember an entry that was committed here, or read."""
        with self._lock:
            if entry.seq <= self._tip.seq:
                return
            self._tip = tip = Tip(entry.seq, digest_of_entry(entry))
        if self._watcher is not None:
            self._watcher(tip)

    def watch(self, watcher: Callable[[Tip], None] | None) -> None:
        """Let a function get each new tip, in the thread that noted it; None ends that."""
        self._watcher = watcher

    def resume(self, connection: Connection, tip: Tip, source: str) -> None:
        """Begin with what an earlier process knew; LogWentBackError if the log lacks it. ``source`` is for people."""
        with self._lock:
            if tip.seq > self._tip.seq:
                self._tip = tip
        self._compare(connection, tip, source)
        self.check()

    def end(self, why: str) -> None:
        """Write nothing from now on: what is committed here would be lost."""
        with self._lock:
            if self._went_back is None:
                self._went_back = LogWentBackError(f"changes would be lost: {why}", hint=_GONE_HINT)

    def check(self) -> None:
        """Raise LogWentBackError once the log went back."""
        if self._went_back is not None:
            raise own_copy(self._went_back)

    def check_writing(self, connection: Connection, head: int) -> None:
        """Check a transaction that has locked the head of the log: nobody can write before it ends.

        The head is compared each time, since it is known already; the entry where the connection is new.
        """
        self.check()
        tip = self._tip
        if head < tip.seq or not connection.info.get(_CHECKED):
            self._compare(connection, tip)
            self.check()
            connection.info[_CHECKED] = True

    def check_reading(self, connection: Connection, tip: Tip) -> None:
        """Check a new connection that reads; ``tip`` is from before its snapshot, else it could lack the entry.

        Reading goes on if the log went back: users see what there is, and only writing ends.
        """
        if self._went_back is None and not connection.info.get(_CHECKED):
            self._compare(connection, tip)
            connection.info[_CHECKED] = True

    def _compare(self, connection: Connection, tip: Tip, source: str = "") -> None:
        what = _difference(connection, tip)
        if not what:
            return
        what = f"{what} ({source})" if source else what
        if self._is_standby(connection):  # it may have the rest in a moment, and nobody writes to it
            hint = "name the server that may be written to: target_session_attrs=read-write finds it"
            raise DatabaseUnavailableError(f"the server is a standby that is behind: {what}", hint=hint)
        with self._lock:
            if self._went_back is None:
                self._went_back = LogWentBackError(f"the database lost changes that were committed: {what}", hint=_HINT)


def _difference(connection: Connection, tip: Tip) -> str:
    """Say how the log differs from what is known; nothing if it does not, or if that was forgotten since."""
    head, forgotten = connection.execute(_HEAD).one()
    if head < tip.seq:
        return f"its log ends at entry {head}, and entry {tip.seq} was committed"
    if tip.seq <= forgotten:
        return ""
    row = connection.execute(_ENTRY, {"number": tip.seq}).mappings().one_or_none()
    if row is None or digest_of_entry(Entry(**row)) != tip.digest:
        return f"entry {tip.seq} of its log is not the one that was committed"
    return ""
