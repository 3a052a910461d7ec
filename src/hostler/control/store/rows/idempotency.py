"""Idempotency keys: the answer to a request is written in the transaction that carried it out, and given again.

A key belongs to a scope (who asked, for which route) and lives until its time is over. The same key for a different
request is an error. Since answer and change commit together, a retry finds both or neither.
"""

from __future__ import annotations

from functools import cache

import msgspec
from sqlalchemy import Connection, bindparam, delete, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from hostler.control.store.errors import IdempotencyMismatchError
from hostler.control.store.tables import idempotency_keys

__all__ = ["RecordedAnswer", "forget_expired", "recall", "remember"]


_FIND = select(idempotency_keys).where(
    idempotency_keys.c.scope == bindparam("scope"), idempotency_keys.c.key == bindparam("key")
)


class RecordedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an earlier request."""

    status: int
    response: bytes


def recall(connection: Connection, scope: str, key: str, request_hash: str, now_ns: int) -> RecordedAnswer | None:
    """Return the answer that was given before; None for a new key. IdempotencyMismatchError for another request."""
    row = connection.execute(_FIND, {"scope": scope, "key": key}).one_or_none()
    if row is None or row.expires_ns <= now_ns:
        return None
    if row.request_hash != request_hash:
        hint = "use a new key for a new request"
        raise IdempotencyMismatchError("this idempotency key was used for another request", hint=hint)
    return RecordedAnswer(status=row.status, response=row.response)


def remember(
    connection: Connection,
    scope: str,
    key: str,
    request_hash: str,
    answer: RecordedAnswer,
    *,
    now_ns: int,
    expires_ns: int,
) -> None:
    """Write an answer in the transaction that makes it true; call ``recall`` before, in the same work."""
    values = {"scope": scope, "key": key, "request_hash": request_hash, "created_ns": now_ns, "expires_ns": expires_ns}
    values |= {"status": answer.status, "response": answer.response, "now_ns": now_ns}
    statement = _remembering(connection.dialect.name)
    if connection.execute(statement, values, execution_options={"preserve_rowcount": True}).rowcount != 1:
        raise IdempotencyMismatchError("this idempotency key was used meanwhile", hint="ask again")


def forget_expired(connection: Connection, now_ns: int, *, limit: int = 1000) -> int:
    """Remove keys whose time is over; return how many."""
    columns = idempotency_keys.c
    old = select(columns.scope, columns.key).where(columns.expires_ns <= now_ns).order_by(columns.expires_ns)
    which = tuple_(columns.scope, columns.key).in_(old.limit(limit))
    return connection.execute(delete(idempotency_keys).where(which)).rowcount


@cache
def _remembering(dialect: str) -> sqlite.Insert | postgresql.Insert:
    """Return a statement, made once, that takes the place of an answer whose time is over, and of no other."""
    names = ("request_hash", "status", "created_ns", "expires_ns", "response")
    is_over = idempotency_keys.c.expires_ns <= bindparam("now_ns")
    statement = sqlite.insert(idempotency_keys) if dialect == "sqlite" else postgresql.insert(idempotency_keys)
    values = statement.values({column.name: bindparam(column.name) for column in idempotency_keys.c})
    new = {name: values.excluded[name] for name in names}
    return values.on_conflict_do_update(index_elements=["scope", "key"], set_=new, where=is_over)
