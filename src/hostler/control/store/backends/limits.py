"""Time limits of the database, and how much may wait for it. Used by the backends, the writer and the database."""

from __future__ import annotations

import msgspec

__all__ = ["DatabaseLimits"]


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
