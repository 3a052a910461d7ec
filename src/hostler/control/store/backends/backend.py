"""The differences between SQLite and PostgreSQL, behind one protocol, with their limits and notices.

Used by ``database`` and ``writer``.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Protocol

import msgspec
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from hostler.errors import HostlerError

__all__ = ["Backend", "DatabaseLimits", "Notifier"]


class Notifier:
    """Wakes those who wait for the log to grow: the leader, replicas that follow, long polls.

    It counts notices; ``poke`` may be called from any thread. A notice may be spurious, and may be lost with a
    connection, so each waiter also checks after its timeout. No notice is lost in between if the count from before the
    check is passed on::

        seen = notifier.count
        while True:
            ...  # read the log
            seen = await notifier.wait(1.0, since=seen)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def count(self) -> int:
        """Return how many notices there were."""
        return self._count

    def poke(self) -> None:
        """Wake all waiting tasks."""
        with self._lock:
            self._count += 1
            woken, self._waiting = self._waiting, set()
        for future in woken:
            with suppress(RuntimeError):  # its loop has ended
                future.get_loop().call_soon_threadsafe(_finish, future)

    async def wait(self, timeout_s: float, *, since: int | None = None) -> int:
        """Return the count once it exceeds ``since`` (default: the count now), or after the timeout."""
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if since is not None and self._count > since:
                return self._count
            self._waiting.add(future)
        try:
            await asyncio.wait((future,), timeout=timeout_s)
        finally:
            with self._lock:
                self._waiting.discard(future)
        return self._count


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class DatabaseLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. PostgreSQL applies its limits to every session, so that a dead replica blocks no other."""

    busy_s: float = 10.0  # SQLite: waiting for a lock
    wal_bytes: int = 64 * 2**20  # SQLite: how long its write-ahead log may grow before everybody waits for it
    connect_s: float = 5.0
    statement_s: float = 30.0
    lock_s: float = 10.0
    # A replica that stands still inside a transaction keeps all others from writing until the server ends its session;
    # shorter than the time in which the lease must pass on.
    idle_in_transaction_s: float = 3.0
    readers: int = 4
    together: int = 128  # works in one COMMIT
    waiting: int = 10_000  # works that wait before more are refused


class Backend(Protocol):
    """An open database of one kind."""

    @property
    def name(self) -> str:
        """Say where it is, without a password."""
        ...

    def place(self, connection: Connection) -> str:
        """Return the name of the database, the same after another server takes over."""
        ...

    @property
    def writing(self) -> Engine:
        """Return connections whose transactions may write."""
        ...

    @property
    def reading(self) -> Engine:
        """Return connections whose transactions see one snapshot and cannot write."""
        ...

    @property
    def notifier(self) -> Notifier:
        """Return the notifier that wakes up when the log grows."""
        ...

    def why_unopened(self, error: SQLAlchemyError) -> HostlerError | None:
        """Say why no connection can be made, for the operator; None for errors that came later."""
        ...

    def lock_schema(self, connection: Connection) -> None:
        """Keep other processes from migrating until this transaction ends."""
        ...

    def announce(self, connection: Connection) -> None:
        """Notify others, with this transaction's COMMIT, that the log grew."""
        ...

    def can_commit(self, connection: Connection) -> bool:
        """Say whether COMMIT would really commit."""
        ...

    def after_commit(self, connection: Connection) -> None:
        """Do maintenance between two transactions; whatever happens, the last one is committed."""
        ...

    def is_refusal(self, error: BaseException) -> bool:
        """Say whether this answer to COMMIT means for certain that nothing was written."""
        ...

    def is_standby(self, connection: Connection) -> bool:
        """Say whether the server only follows another server, and may be behind it."""
        ...

    def why_gone(self) -> str:
        """Say why writes would be lost although they are committed; None while all is well."""
        ...

    def close(self) -> None:
        """Close all connections and release the lock of the database."""
        ...
