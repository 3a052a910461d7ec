"""What differs between SQLite and PostgreSQL, behind one protocol. Used by ``database`` and ``writer``."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from hostler.control.store.notifier import Notifier
from hostler.errors import HostlerError

__all__ = ["Backend"]


class Backend(Protocol):
    """One kind of database, opened."""

    @property
    def name(self) -> str:
        """Say where it is, without a password."""
        ...

    def place(self, connection: Connection) -> str:
        """Return what the database is called, also by a server that takes over."""
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
        """Return what wakes up when somebody committed to the log."""
        ...

    def why_unopened(self, error: SQLAlchemyError) -> HostlerError | None:
        """Say why there is no connection at all, to whoever named the database; None for what went wrong later."""
        ...

    def lock_schema(self, connection: Connection) -> None:
        """Keep others from migrating until this transaction ends."""
        ...

    def announce(self, connection: Connection) -> None:
        """Let others know with this transaction's COMMIT that the log grew."""
        ...

    def can_commit(self, connection: Connection) -> bool:
        """Say whether COMMIT would really commit."""
        ...

    def after_commit(self, connection: Connection) -> None:
        """Do what is due between two transactions; whatever comes of it, the one before is committed."""
        ...

    def is_refusal(self, error: BaseException) -> bool:
        """Say whether this answer to COMMIT means for certain that nothing was written."""
        ...

    def is_standby(self, connection: Connection) -> bool:
        """Say whether what answers only follows another server, and may be behind it."""
        ...

    def why_gone(self) -> str:
        """Say why what is written now would be lost although it is committed; nothing as long as all is well."""
        ...

    def close(self) -> None:
        """Close all connections and give back what makes the database ours."""
        ...
