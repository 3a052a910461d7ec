"""Operations as rows: what somebody asked for, and how far it came. For people and clients that wait."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, RowMapping, delete, select

from hostler.control.store.errors import NameTakenError, NotFoundError
from hostler.control.store.rows import Page, change, insert_new, read_page
from hostler.control.store.tables import operations

__all__ = [
    "OperationFilter", "OperationRow", "find", "forget_finished", "get", "insert", "list_page", "open_of", "save",
]  # fmt: skip


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    """An operation; it is over when ``finished_ns`` is there. ``body`` is JSON that the store does not read."""

    id: str
    kind: str
    project: str = ""
    subject: str = ""
    actor: str = ""
    state: str = "pending"
    generation: int = 0  # of the subject: done when it is observed
    version: int = 1
    created_ns: int = 0
    updated_ns: int = 0
    finished_ns: int | None = None
    body: bytes = b"{}"


class OperationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows; None means whatever."""

    project: str | None = None
    subject: str | None = None
    state: str | None = None
    kind: str | None = None


def insert(connection: Connection, row: OperationRow) -> OperationRow:
    """Write a new operation."""
    if not insert_new(connection, operations, msgspec.structs.asdict(row)):
        raise NameTakenError(f"operation {row.id} exists already", hint="make a new id")
    return row


def save(connection: Connection, row: OperationRow) -> OperationRow:
    """Write an operation that is still at ``row.version``; returns it with its next version."""
    values = msgspec.structs.asdict(row)
    for name in ("id", "version", "created_ns"):
        del values[name]
    version = change(connection, operations, {"id": row.id}, row.version, values, f"operation {row.id}")
    return msgspec.structs.replace(row, version=version)


def find(connection: Connection, identity: str) -> OperationRow | None:
    """Return an operation by its id."""
    row = connection.execute(select(operations).where(operations.c.id == identity)).mappings().one_or_none()
    return None if row is None else _make(row)


def get(connection: Connection, identity: str) -> OperationRow:
    """Return an operation by its id; NotFoundError."""
    found = find(connection, identity)
    if found is None:
        raise NotFoundError(f"operation {identity} does not exist", hint="old ones are removed after a while")
    return found


def open_of(connection: Connection, subject: str) -> list[OperationRow]:
    """Return the operations of something that are not over, oldest first."""
    is_open = (operations.c.subject == subject) & operations.c.finished_ns.is_(None)
    query = select(operations).where(is_open).order_by(operations.c.created_ns, operations.c.id)
    return [_make(row) for row in connection.execute(query).mappings()]


def list_page(
    connection: Connection, wanted: OperationFilter, *, after: str = "", limit: int = 100
) -> Page[OperationRow]:
    """Return operations, oldest first, a page at a time."""
    query = select(operations)
    for name in wanted.__struct_fields__:
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(operations.c[name] == value)
    return read_page(connection, query, operations, _make, after, limit)


def forget_finished(connection: Connection, before_ns: int, *, limit: int = 1000) -> int:
    """Remove operations that were over before a time, oldest first; return how many."""
    finished = operations.c.finished_ns
    old = select(operations.c.id).where(finished < before_ns).order_by(finished).limit(limit)
    return connection.execute(delete(operations).where(operations.c.id.in_(old))).rowcount


def _make(row: RowMapping) -> OperationRow:
    return OperationRow(**row)
