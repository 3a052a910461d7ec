"""Idempotency keys: the answer to a request is written in the transaction that carried it out, and given again.

A key belongs to a scope (who asked, for which route) and lives until its time is over. The same key for a different
request is an error. Since answer and change commit together, a retry finds both or neither.
"""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, select

from hostler.control.store.errors import IdempotencyMismatchError
from hostler.control.store.rows import insert_new
from hostler.control.store.tables import idempotency_keys

__all__ = ["Answer", "forget_expired", "recall", "remember"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered."""

    status: int
    response: bytes


def recall(connection: Connection, scope: str, key: str, request_hash: str, now_ns: int) -> Answer | None:
    """Return the answer that was given before; None for a new key. IdempotencyMismatchError for another request."""
    same = (idempotency_keys.c.scope == scope) & (idempotency_keys.c.key == key)
    row = connection.execute(select(idempotency_keys).where(same)).one_or_none()
    if row is None or row.expires_ns <= now_ns:
        return None
    if row.request_hash != request_hash:
        hint = "use a new key for a new request"
        raise IdempotencyMismatchError("this idempotency key was used for another request", hint=hint)
    return Answer(status=row.status, response=row.response)


def remember(
    connection: Connection, scope: str, key: str, request_hash: str, answer: Answer, *, now_ns: int, expires_ns: int
) -> None:
    """Write an answer, in the transaction that makes it true; call ``recall`` in the same work before."""
    same = (idempotency_keys.c.scope == scope) & (idempotency_keys.c.key == key)
    connection.execute(delete(idempotency_keys).where(same, idempotency_keys.c.expires_ns <= now_ns))
    values = {"scope": scope, "key": key, "request_hash": request_hash, "created_ns": now_ns, "expires_ns": expires_ns}
    if not insert_new(connection, idempotency_keys, {**values, "status": answer.status, "response": answer.response}):
        raise IdempotencyMismatchError("this idempotency key was used meanwhile", hint="ask again")


def forget_expired(connection: Connection, now_ns: int, *, limit: int = 1000) -> int:
    """Remove keys whose time is over; return how many."""
    columns = idempotency_keys.c
    old = select(columns.scope, columns.key).where(columns.expires_ns <= now_ns).limit(limit)
    gone = 0
    for scope, key in connection.execute(old).all():
        gone += connection.execute(delete(idempotency_keys).where(columns.scope == scope, columns.key == key)).rowcount
    return gone
