"""Labels of rows, in a table of their own so that lists can ask for them. Used by ``vms`` and ``hosts``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, delete, exists, insert, select

from hostler.control.store.rows import MOST_IN_A_PAGE

__all__ = ["Labelled", "Labels", "columns_of", "has_labels", "read_labels", "with_labels", "write_labels"]

Labels = tuple[tuple[str, str], ...]


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """A row that has labels."""

    id: str
    labels: Labels = ()


Row = TypeVar("Row", bound=Labelled)


def columns_of(row: Labelled) -> dict[str, Any]:
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
    for start in range(0, len(owners), MOST_IN_A_PAGE):  # a statement takes only so many values
        some = owners[start : start + MOST_IN_A_PAGE]
        query = select(table).where(table.c.owner.in_(some)).order_by(table.c.owner, table.c.key)
        for owner, key, value in connection.execute(query):
            found[owner].append((key, value))
    return {owner: tuple(labels) for owner, labels in found.items()}


def write_labels(connection: Connection, table: Table, owner: str, labels: Labels, *, is_new: bool = False) -> None:
    """Make these the labels of a row."""
    if not is_new:
        connection.execute(delete(table).where(table.c.owner == owner))
    if labels:
        connection.execute(insert(table), [{"owner": owner, "key": key, "value": value} for key, value in labels])


def has_labels(table: Table, owner: ColumnElement[str], labels: Labels) -> list[ColumnElement[bool]]:
    """Return conditions that a row has all these labels."""
    conditions: list[ColumnElement[bool]] = []
    for key, value in labels:
        one = table.alias()
        conditions.append(exists().where(one.c.owner == owner, one.c.key == key, one.c.value == value))
    return conditions
