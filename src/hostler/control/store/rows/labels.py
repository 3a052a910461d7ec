"""Labels of rows, in a table of their own so that lists can ask for them. Used by ``vms`` and ``hosts``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, Table, delete, exists, select

from hostler.control.store.rows.bulk import insert_all, is_among, keys

__all__ = [
    "LabeledRow", "Labels", "add_labels", "columns_of", "has_labels", "read_labels", "with_labels", "write_labels",
]  # fmt: skip

Labels = tuple[tuple[str, str], ...]


class LabeledRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that has labels."""

    id: str
    labels: Labels = ()


Row = TypeVar("Row", bound=LabeledRow)


def columns_of(row: LabeledRow) -> dict[str, Any]:
    """Return what of a row is in its own table."""
    values = msgspec.structs.asdict(row)
    del values["labels"]
    return values


def with_labels(connection: Connection, table: Table, rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return rows with their labels."""
    labels = read_labels(connection, table, [row.id for row in rows])
    return tuple(msgspec.structs.replace(row, labels=labels[row.id]) if labels[row.id] else row for row in rows)


def read_labels(connection: Connection, table: Table, owners: Sequence[str]) -> dict[str, Labels]:
    """Return the labels of some rows, sorted by key."""
    found: dict[str, list[tuple[str, str]]] = {owner: [] for owner in owners}
    for owner, key, value in connection.execute(_reading(table), keys(owners)):
        found[owner].append((key, value))
    return {owner: tuple(labels) for owner, labels in found.items()}


@cache
def _reading(table: Table) -> Select[Any]:
    """Return a statement that is made once: making it costs SQLAlchemy more than running it costs the database."""
    return select(table).where(is_among(table.c.owner)).order_by(table.c.owner, table.c.key)


def write_labels(connection: Connection, table: Table, owner: str, labels: Labels) -> None:
    """Make these the labels of a row."""
    connection.execute(delete(table).where(table.c.owner == owner))
    _insert(connection, table, [(owner, key, value) for key, value in labels])


def add_labels(connection: Connection, table: Table, rows: Sequence[LabeledRow]) -> None:
    """Write the labels of rows that are new."""
    _insert(connection, table, [(row.id, key, value) for row in rows for key, value in row.labels])


def _insert(connection: Connection, table: Table, labels: Sequence[tuple[str, str, str]]) -> None:
    insert_all(connection, table, [{"owner": owner, "key": key, "value": value} for owner, key, value in labels])


def has_labels(table: Table, owner: ColumnElement[str], labels: Labels) -> list[ColumnElement[bool]]:
    """Return conditions that a row has all these labels."""
    conditions: list[ColumnElement[bool]] = []
    for key, value in labels:
        one = table.alias()
        conditions.append(exists().where(one.c.owner == owner, one.c.key == key, one.c.value == value))
    return conditions
