"""Many rows in one statement: what finding, inserting and changing them costs per row is what it must, and no more.

SQLite runs in this process and takes rows one by one at no price. Between here and PostgreSQL each row would be a
message of its own; there all rows go as one JSON text, which the server takes apart (a quarter of the price). Keys to
look for go as JSON to both: a statement that names each of them would be another one for each number of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    Table,
    TableValuedAlias,
    Text,
    Update,
    bindparam,
    cast,
    column,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.functions import FunctionElement

__all__ = ["BulkUpdate", "insert_all", "is_among", "keys", "select_keys_with"]

Row = Mapping[str, Any]
Given = Mapping[str, ColumnElement[Any]]
"""What a statement knows of the row at hand, by name."""

_encode = msgspec.json.Encoder().encode


class _Keys(FunctionElement[Any]):
    """The ``keys`` that a statement is run with, as rows of one column, ``value``."""

    inherit_cache = True
    name = "keys"

    def __init__(self) -> None:
        super().__init__(bindparam("keys", type_=Text()))


@compiles(_Keys, "sqlite")
def _in_sqlite(element: _Keys, compiler: SQLCompiler, **options: object) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Keys, "postgresql")
def _in_postgres(element: _Keys, compiler: SQLCompiler, **options: object) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS JSON))"


class _AmongKeys(FunctionElement[Any]):
    """The right side of a comparison with the ``keys``, whose operator each database has its own of."""

    inherit_cache = True
    name = "among_keys"

    def __init__(self) -> None:
        super().__init__(select(_given_keys().c.value).scalar_subquery())


@compiles(_AmongKeys, "sqlite")
def _among_in_sqlite(element: _AmongKeys, compiler: SQLCompiler, **options: object) -> str:
    return f"IN {compiler.process(element.clauses, **options)}"


@compiles(_AmongKeys, "postgresql")
def _among_in_postgres(element: _AmongKeys, compiler: SQLCompiler, **options: object) -> str:
    """Ask for an array: a join with a table without statistics compares each row with each key."""
    return f"= ANY (ARRAY{compiler.process(element.clauses, **options)})"


def is_among(one: ColumnElement[str]) -> ColumnElement[bool]:
    """Return whether a text is one of the ``keys`` that a statement is run with."""
    return one.bool_op("")(_AmongKeys())


def select_keys_with(found: Callable[[ColumnElement[str]], Select[Any]]) -> Select[Any]:
    """Return a query for those of the ``keys`` for which there is a row, looked for by each of them."""
    given = _given_keys()
    return select(given.c.value).where(found(given.c.value).limit(1).scalar_subquery().is_not(None))


def _given_keys() -> TableValuedAlias:
    return _Keys().table_valued(column("value", Text()), name="given")


def keys(values: Iterable[str]) -> dict[str, str]:
    """Return the parameter that statements on keys are run with."""
    return {"keys": _encode(list(values)).decode()}


def insert_all(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Write rows that are new; each has the same columns."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        connection.execute(_inserting_each(table), rows)
    else:
        connection.execute(_inserting(table, tuple(rows[0])), _as_text(rows))


class BulkUpdate:
    """An update of many rows of a table, with values for each row, named like columns of the table.

    ``where`` selects the row, ``values`` has its new values. No two may mean the same row.
    """

    def __init__(
        self,
        table: Table,
        given: Sequence[str],
        *,
        where: Callable[[Given], Sequence[ColumnElement[bool]]],
        values: Callable[[Given], Row],
    ) -> None:
        each = {name: bindparam(_parameter(name), type_=table.c[name].type) for name in given}
        together = _given(table, given)
        self._names = {name: _parameter(name) for name in given}
        self._each: Update = update(table).where(*where(each)).values(**values(each))
        self._together: Update = update(table).where(*where(together)).values(**values(together))

    def run(self, connection: Connection, rows: Sequence[Row]) -> int:
        """Change rows and return how many were there."""
        if not rows:
            return 0
        if connection.dialect.name != "sqlite":
            return connection.execute(self._together, _as_text(rows)).rowcount
        parameters = [{parameter: row[name] for name, parameter in self._names.items()} for row in rows]
        return connection.execute(self._each, parameters, execution_options={"preserve_rowcount": True}).rowcount


@cache
def _inserting_each(table: Table) -> Insert:
    """Return a statement that is made once: making it costs SQLAlchemy more than running it costs the database."""
    return insert(table)


@cache
def _inserting(table: Table, names: tuple[str, ...]) -> Insert:
    return insert(table).from_select(names, select(*_given(table, names).values()))


def _parameter(name: str) -> str:
    """SQLAlchemy takes parameters named like columns for values of its own."""
    return f"given_{name}"


def _as_text(rows: Sequence[Row]) -> dict[str, str]:
    return {"rows": _encode(rows).decode()}


def _given(table: Table, names: Sequence[str]) -> dict[str, ColumnElement[Any]]:
    """Return the columns of rows that are passed as JSON; bytes are base64 there."""
    columns = [column(name, Text() if _is_binary(table.c[name]) else table.c[name].type) for name in names]
    text = cast(bindparam("rows", type_=Text()), JSON)
    given: TableValuedAlias = func.json_to_recordset(text).table_valued(*columns, name="given")
    typed = given.render_derived(name="given", with_types=True)
    return {
        name: func.decode(typed.c[name], "base64", type_=LargeBinary()) if _is_binary(table.c[name]) else typed.c[name]
        for name in names
    }


def _is_binary(one: Column[Any]) -> bool:
    return isinstance(one.type, LargeBinary)
