"""Quotas, reservations, gangs and settings: small named documents of a project, stored as a whole.

The engine gets them as facts; here is what users wrote. Settings of the service itself belong to no project (an empty
name).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from sqlalchemy import Connection, select, tuple_

from hostler.control.store import tables
from hostler.control.store.errors import InvalidCursorError, NameTakenError, NotFoundError
from hostler.control.store.rows.versioned_rows import RowPage, change, insert_new, remove
from hostler.errors import Cause

__all__ = ["DocumentRow", "Kind", "drop", "find", "get", "insert", "list_all", "list_page", "missing", "save"]

Kind = Literal["quota", "reservation", "gang", "setting"]

_TABLES = {
    "quota": tables.quotas,
    "reservation": tables.reservations,
    "gang": tables.gangs,
    "setting": tables.settings,
}


class DocumentRow(msgspec.Struct, frozen=True, kw_only=True):
    """A document; ``body`` is JSON that the store does not read."""

    project: str
    name: str
    version: int = 1
    created_ns: int = 0
    updated_ns: int = 0
    body: bytes = b"{}"


def insert(connection: Connection, kind: Kind, row: DocumentRow) -> DocumentRow:
    """Write a new document; NameTakenError."""
    if not insert_new(connection, _TABLES[kind], msgspec.structs.asdict(row)):
        raise NameTakenError(f"{_what(kind, row)} exists already", hint="choose another name, or change that one")
    return row


def save(connection: Connection, kind: Kind, row: DocumentRow) -> DocumentRow:
    """Write a document that is still at ``row.version``; returns it with its next version."""
    values = {"updated_ns": row.updated_ns, "body": row.body}
    version = change(connection, _TABLES[kind], _key(row), row.version, values, _what(kind, row))
    return msgspec.structs.replace(row, version=version)


def drop(connection: Connection, kind: Kind, row: DocumentRow) -> None:
    """Remove a document that is still at ``row.version``."""
    remove(connection, _TABLES[kind], _key(row), row.version, _what(kind, row))


def find(connection: Connection, kind: Kind, project: str, name: str) -> DocumentRow | None:
    """Return a document by its name."""
    table = _TABLES[kind]
    query = select(table).where(table.c.project == project, table.c.name == name)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else DocumentRow(**row)


def get(connection: Connection, kind: Kind, project: str, name: str) -> DocumentRow:
    """Return a document by its name; NotFoundError."""
    found = find(connection, kind, project, name)
    if found is None:
        raise missing(kind, project, name)
    return found


def missing(kind: Kind, project: str, name: str) -> NotFoundError:
    """Return the error for a document that is not there. A quota has no name of its own: it is its project's."""
    error = NotFoundError.of(kind, name, place=f"project {project}")
    error.cause = Cause("missing", kind, project if kind == "quota" else name)
    return error


def list_all(connection: Connection, kind: Kind, project: str | None = None) -> list[DocumentRow]:
    """Return all documents of a kind, of one project if it is named, by name."""
    table = _TABLES[kind]
    query = select(table).order_by(table.c.project, table.c.name)
    if project is not None:
        query = query.where(table.c.project == project)
    return [DocumentRow(**row) for row in connection.execute(query).mappings()]


def list_page(
    connection: Connection, kind: Kind, project: str | None = None, *, after: str = "", limit: int = 100
) -> RowPage[DocumentRow]:
    """Return some documents of a kind, of one project if it is named, by name; InvalidCursorError."""
    table = _TABLES[kind]
    key = tuple_(table.c.project, table.c.name)
    query = select(table).order_by(table.c.project, table.c.name).limit(limit + 1)
    if project is not None:
        query = query.where(table.c.project == project)
    if after:
        query = query.where(key > tuple_(*_read_cursor(after)))
    rows = [DocumentRow(**row) for row in connection.execute(query).mappings()]
    last = rows[limit - 1] if len(rows) > limit else None
    return RowPage(items=tuple(rows[:limit]), next=f"{last.project}/{last.name}" if last is not None else "")


def _read_cursor(after: str) -> tuple[str, str]:
    project, slash, name = after.partition("/")
    if not slash or "\0" in after:
        hint = "pass on what the page before gave as next, or nothing"
        raise InvalidCursorError("the cursor cannot be read", hint=hint)
    return project, name


def _key(row: DocumentRow) -> dict[str, str]:
    return {"project": row.project, "name": row.name}


def _what(kind: Kind, row: DocumentRow) -> str:
    return f"{kind} {row.name} of project {row.project}" if row.project else f"{kind} {row.name}"
