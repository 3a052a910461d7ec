"""Operations as rows: requests of users and their progress, for people and clients that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import Connection, RowMapping, bindparam, delete, select, update

from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows.bulk import BulkUpdate, insert_all
from hostler.control.store.rows.versioned_rows import RowPage, change, read_page
from hostler.control.store.tables import operations

__all__ = [
    "OperationFilter", "OperationRow", "add_many", "fail", "find", "finish", "forget_finished", "get", "list_page",
    "open_of", "save",
]  # fmt: skip


_IS_OPEN = (operations.c.subject == bindparam("key_subject")) & operations.c.finished_ns.is_(None)
_FINISH = BulkUpdate(
    operations,
    ("subject", "generation", "state", "finished_ns"),
    where=lambda given: (
        operations.c.subject == given["subject"],
        operations.c.finished_ns.is_(None),
        operations.c.generation <= given["generation"],
    ),
    values=lambda given: {
        "state": given["state"],
        "finished_ns": given["finished_ns"],
        "updated_ns": given["finished_ns"],
        "version": operations.c.version + 1,
    },
)
_FAILED = update(operations).values(
    state="failed",
    finished_ns=bindparam("now"),
    updated_ns=bindparam("now"),
    body=bindparam("new_body"),
    version=operations.c.version + 1,
)
_FAIL = _FAILED.where(_IS_OPEN)
_FAIL_ONE = _FAILED.where(operations.c.id == bindparam("key_id"), operations.c.finished_ns.is_(None))
_OPEN = select(operations).where(_IS_OPEN).order_by(operations.c.created_ns, operations.c.id)


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
    """What a list shows; None means any value."""

    project: str | None = None
    subject: str | None = None
    state: str | None = None
    kind: str | None = None


def add_many(connection: Connection, rows: Sequence[OperationRow]) -> None:
    """Write operations with new ids."""
    insert_all(connection, operations, [msgspec.structs.asdict(row) for row in rows])


def save(connection: Connection, row: OperationRow) -> OperationRow:
    """Write an operation that is still at ``row.version``; returns it with its next version."""
    values = msgspec.structs.asdict(row)
    for name in ("id", "version", "created_ns"):
        del values[name]
    version = change(connection, operations, {"id": row.id}, row.version, values, f"operation {row.id}")
    return msgspec.structs.replace(row, version=version)


def finish(connection: Connection, done: Sequence[tuple[str, int]], failed: Mapping[str, str], now_ns: int) -> None:
    """End what is open: all of a subject that ``failed``, and what was ``done`` up to a generation of one."""
    for who, why in failed.items():
        body = msgspec.json.encode({"error": why})
        connection.execute(_FAIL, {"key_subject": who, "now": now_ns, "new_body": body})
    ends = {"state": "done", "finished_ns": now_ns}
    _FINISH.run(connection, [{"subject": who, "generation": upto, **ends} for who, upto in done])


def fail(connection: Connection, identities: Sequence[str], why: str, now_ns: int) -> None:
    """End some that are open, for one reason."""
    if identities:
        body = msgspec.json.encode({"error": why})
        connection.execute(_FAIL_ONE, [{"key_id": one, "now": now_ns, "new_body": body} for one in identities])


def open_of(connection: Connection, subject: str) -> list[OperationRow]:
    """Return what is open of a subject, oldest first."""
    return [_make(row) for row in connection.execute(_OPEN, {"key_subject": subject}).mappings()]


def find(connection: Connection, identity: str) -> OperationRow | None:
    """Return an operation by its id."""
    row = connection.execute(select(operations).where(operations.c.id == identity)).mappings().one_or_none()
    return None if row is None else _make(row)


def get(connection: Connection, identity: str) -> OperationRow:
    """Return an operation by its id; NotFoundError."""
    found = find(connection, identity)
    if found is None:
        raise NotFoundError.of("operation", identity, hint="old ones are removed after a while")
    return found


def list_page(
    connection: Connection, wanted: OperationFilter, *, after: str = "", limit: int = 100, is_backwards: bool = False
) -> RowPage[OperationRow]:
    """Return operations, oldest first or newest first, a page at a time."""
    query = select(operations)
    for name in wanted.__struct_fields__:
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(operations.c[name] == value)
    return read_page(connection, query, operations, _make, after, limit, is_backwards=is_backwards)


def forget_finished(connection: Connection, before_ns: int, *, limit: int = 1000) -> int:
    """Remove operations that were over before a time, oldest first; return how many."""
    finished = operations.c.finished_ns
    old = select(operations.c.id).where(finished < before_ns).order_by(finished).limit(limit)
    return connection.execute(delete(operations).where(operations.c.id.in_(old))).rowcount


def _make(row: RowMapping) -> OperationRow:
    return OperationRow(**row)
