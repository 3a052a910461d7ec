"""A change that changes nothing, to see whether changes reach the disk."""

from __future__ import annotations

from sqlalchemy import Connection, update

from hostler.control.store.tables import log_head

__all__ = ["touch"]

# In the row that every transaction locks anyway. There and back: SQLite writes no row that is as it was.
_THERE, _BACK = (update(log_head).values(forgotten=log_head.c.forgotten + step) for step in (1, -1))


def touch(connection: Connection) -> None:
    """Write a row and leave it as it was: COMMIT then needs the disk, as it does not where nothing was written."""
    connection.execute(_THERE)
    connection.execute(_BACK)
