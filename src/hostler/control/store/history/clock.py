"""The database's clock, the same for all replicas. Used by works, in milliseconds."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, literal_column, select

__all__ = ["now_ms", "read_ms"]

_CLOCKS = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
}


def now_ms(connection: Connection) -> ColumnElement[int]:
    """Return an expression for the time since 1970, evaluated when its statement runs."""
    return literal_column(_CLOCKS[connection.dialect.name])


def read_ms(connection: Connection) -> int:
    """Return the time since 1970 now, not that of the transaction's start."""
    found: int = connection.execute(select(now_ms(connection))).scalar_one()
    return found
