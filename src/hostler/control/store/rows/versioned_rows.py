"""What all modules of rows share: inserting what must be new, changing only what is as it was read, pages.

A change compares the version, so it fails if the row was changed since it was read. Pages go by a key
that never changes (creation, id), so that rows which come or go meanwhile neither repeat nor hide others.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from hostler.control.store.errors import InvalidCursorError, NotFoundError, StaleVersionError
from hostler.errors import InputError

__all__ = [
    "MOST_IN_A_PAGE", "RowPage", "Time", "change", "check_limit", "insert_new", "read_cursor", "read_page",
    "remove", "write_cursor",
]  # fmt: skip

MOST_IN_A_PAGE = 500

Row = TypeVar("Row")
Key = TypeVar("Key")

Time = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Nanoseconds since 1970, as far as a column can hold them."""


class RowPage(msgspec.Struct, Generic[Row], frozen=True, kw_only=True):
    """Some rows, and the cursor of the next page; an empty cursor means that there is none."""

    items: tuple[Row, ...]
    next: str = ""


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless a unique value is taken; say whether it was inserted."""
    # Not by catching an error: in PostgreSQL that would end the transaction up to the last savepoint.
    statement = _inserting(table, connection.dialect.name)
    return connection.execute(statement, values, execution_options={"preserve_rowcount": True}).rowcount == 1


def change(
    connection: Connection, table: Table, key: Mapping[str, Any], version: int, values: Mapping[str, Any], what: str
) -> int:
    """Change a row that is still at a version and return its next one; NotFoundError, StaleVersionError."""
    statement = _changing(table, tuple(key), tuple(values))
    parameters = {f"key_{name}": value for name, value in key.items()}
    parameters |= {f"new_{name}": value for name, value in values.items()}
    parameters |= {"old_version": version, "next_version": version + 1}
    if connection.execute(statement, parameters).rowcount != 1:
        raise _why_unchanged(connection, table, _is_row(table, key), version, what)
    return version + 1


def remove(connection: Connection, table: Table, key: Mapping[str, Any], version: int, what: str) -> None:
    """Delete a row that is still at a version; NotFoundError, StaleVersionError."""
    same = _is_row(table, key)
    if connection.execute(delete(table).where(same, table.c.version == version)).rowcount != 1:
        raise _why_unchanged(connection, table, same, version, what)


def read_page(
    connection: Connection,
    query: Select[Any],
    table: Table,
    make: Callable[[RowMapping], Row],
    after: str,
    limit: int,
    *,
    is_backwards: bool = False,
) -> RowPage[Row]:
    """Return the rows of a query after a cursor, oldest first, or newest first."""
    check_limit(limit)
    if after:
        created_ns, identity = read_cursor(after, str(table.name), tuple[Time, str])
        here, there = tuple_(table.c.created_ns, table.c.id), tuple_(created_ns, identity)
        query = query.where(here < there if is_backwards else here > there)
    if is_backwards:
        query = query.order_by(table.c.created_ns.desc(), table.c.id.desc()).limit(limit + 1)
    else:
        query = query.order_by(table.c.created_ns, table.c.id).limit(limit + 1)
    rows = connection.execute(query).mappings().all()
    last = rows[limit - 1] if len(rows) > limit else None
    cursor = "" if last is None else write_cursor(str(table.name), last["created_ns"], last["id"])
    return RowPage(items=tuple(make(row) for row in rows[:limit]), next=cursor)


def check_limit(limit: int) -> None:
    """Raise InputError unless a page may have so many rows."""
    if not 1 <= limit <= MOST_IN_A_PAGE:
        raise InputError(f"a page of {limit} rows", hint=f"ask for 1 to {MOST_IN_A_PAGE}")


def write_cursor(kind: str, *key: int | str) -> str:
    """Return the cursor of the next page of a list; it names the list, because it is valid only there."""
    return base64.urlsafe_b64encode(msgspec.json.encode([kind, *key])).decode().rstrip("=")


def read_cursor(text: str, kind: str, form: type[Key]) -> Key:
    """Return the key of a cursor; InvalidCursorError, also if it belongs to another list."""
    hint = "pass on what the page before gave as next, or nothing"
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        of_kind, *values = msgspec.json.decode(raw, type=list[int | str])
        key = msgspec.convert(values, form) if of_kind == kind else None
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise InvalidCursorError("the cursor cannot be read", hint=hint) from error
    if key is None:
        raise InvalidCursorError("the cursor is of another list", hint=hint)
    return key


@cache
def _inserting(table: Table, dialect: str) -> sqlite.Insert | postgresql.Insert:
    """Return a statement that is made once: making it costs SQLAlchemy more than running it costs the database."""
    if dialect == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()


@cache
def _changing(table: Table, key: tuple[str, ...], names: tuple[str, ...]) -> Update:
    """Return a statement that is made once; names of columns are no names of parameters, hence the prefixes."""
    same = [table.c[name] == bindparam(f"key_{name}") for name in key]
    values: dict[str, BindParameter[Any]] = {name: bindparam(f"new_{name}") for name in names}
    statement = update(table).where(*same, table.c.version == bindparam("old_version"))
    return statement.values(**values, version=bindparam("next_version"))


def _is_row(table: Table, key: Mapping[str, Any]) -> ColumnElement[bool]:
    condition: ColumnElement[bool] | None = None
    for name, value in key.items():
        one = table.c[name] == value
        condition = one if condition is None else condition & one
    if condition is None:
        raise ValueError("a row needs a key")
    return condition


def _why_unchanged(
    connection: Connection, table: Table, same: ColumnElement[bool], version: int, what: str
) -> NotFoundError | StaleVersionError:
    found = connection.execute(select(table.c.version).where(same)).scalar()
    if found is None:
        return NotFoundError(f"{what} does not exist", hint="list what there is")
    return StaleVersionError(f"{what} is at version {found}, not {version}", hint="read it again and repeat the change")
