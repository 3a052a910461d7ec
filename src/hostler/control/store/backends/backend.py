"""The differences between SQLite and PostgreSQL, behind one protocol. Used by ``database`` and ``writer``."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from hostler.control.store.backends.notifier import Notifier
from hostler.errors import HostlerError

__all__ = ["Backend"]


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
