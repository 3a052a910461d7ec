"""The log: what the engine was told and when it was stepped, in one order that every replica follows.

Sequence numbers have no gaps and follow the order of commits, on both databases: whoever appends raises the number in
the single row ``log_head`` and so keeps all others out until COMMIT. Who has seen ``seq`` has seen all before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from hostler.control.store.errors import LogForgottenError
from hostler.control.store.tables import checkpoints, log, log_head
from hostler.errors import InputError

__all__ = [
    "Checkpoint", "Entry", "Kind", "NewEntry", "append", "forget_before", "head", "latest_checkpoint", "read_after",
    "save_checkpoint",
]  # fmt: skip

Kind = Literal["fact", "step", "note"]

_GROWTH = "hostler_log_grew"
_KEPT_CHECKPOINTS = 2
# Made once: making them costs SQLAlchemy more than running them costs the database.
_INSERT = insert(log)
_RAISE_HEAD = update(log_head).values(seq=log_head.c.seq + bindparam("count")).returning(log_head.c.seq)


class NewEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be written to the log."""

    at_ns: int
    kind: Kind
    body: bytes
    actor: str = ""
    project: str = ""
    subject: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that stands in the log."""

    seq: int
    at_ns: int
    kind: Kind
    body: bytes
    actor: str = ""
    project: str = ""
    subject: str = ""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Decision state after all entries up to ``seq``; ``format`` says which program can read it."""

    seq: int
    at_ns: int
    format: str
    body: bytes


def append(connection: Connection, entries: Sequence[NewEntry]) -> list[int]:
    """Write entries behind all others and return their numbers."""
    if not entries:
        return []
    last: int = connection.execute(_RAISE_HEAD, {"count": len(entries)}).scalar_one()
    numbers = list(range(last - len(entries) + 1, last + 1))
    rows = [{"seq": seq, **msgspec.structs.asdict(entry)} for seq, entry in zip(numbers, entries, strict=True)]
    connection.execute(_INSERT, rows)
    connection.info[_GROWTH] = True
    return numbers


def take_growth(connection: Connection) -> bool:
    """Say whether something was appended on this connection since this was asked last; for the writer."""
    return bool(connection.info.pop(_GROWTH, False))


def head(connection: Connection) -> int:
    """Return the number of the newest entry, 0 before the first."""
    found: int = connection.execute(select(log_head.c.seq)).scalar_one()
    return found


def read_after(
    connection: Connection,
    seq: int,
    limit: int,
    *,
    kinds: Sequence[Kind] = (),
    project: str | None = None,
    subject: str | None = None,
) -> list[Entry]:
    """Return the next entries after a number; LogForgottenError when some of them are gone."""
    forgotten: int = connection.execute(select(log_head.c.forgotten)).scalar_one()
    if seq < forgotten:
        hint = "begin with the latest checkpoint, or list what is there now"
        raise LogForgottenError(f"entries up to {forgotten} are gone, asked for those after {seq}", hint=hint)
    query = select(log).where(log.c.seq > seq).order_by(log.c.seq).limit(limit)
    if kinds:
        query = query.where(log.c.kind.in_(kinds))
    if project is not None:
        query = query.where(log.c.project == project)
    if subject is not None:
        query = query.where(log.c.subject == subject)
    return [Entry(**row) for row in connection.execute(query).mappings()]


def save_checkpoint(connection: Connection, checkpoint: Checkpoint) -> None:
    """Keep decision state; one older checkpoint stays beside it."""
    newest = head(connection)
    if not 0 <= checkpoint.seq <= newest:
        raise InputError(f"a checkpoint at {checkpoint.seq} of a log that ends at {newest}", hint="checkpoint what is")
    connection.execute(delete(checkpoints).where(checkpoints.c.seq == checkpoint.seq))
    connection.execute(insert(checkpoints).values(msgspec.structs.asdict(checkpoint)))
    kept = select(checkpoints.c.seq).order_by(checkpoints.c.seq.desc()).limit(_KEPT_CHECKPOINTS)
    oldest_kept = min(connection.execute(kept).scalars())
    connection.execute(delete(checkpoints).where(checkpoints.c.seq < oldest_kept))


def latest_checkpoint(connection: Connection) -> Checkpoint | None:
    """Return the newest decision state that was kept."""
    query = select(checkpoints).order_by(checkpoints.c.seq.desc()).limit(1)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else Checkpoint(**row)


def forget_before(connection: Connection, seq: int) -> int:
    """Delete entries before a number, but none that is needed after the latest checkpoint; return how many."""
    latest = connection.execute(select(func.max(checkpoints.c.seq))).scalar()
    if latest is None:
        return 0
    bound = min(seq - 1, latest)
    gone = connection.execute(delete(log).where(log.c.seq <= bound)).rowcount
    if gone:
        connection.execute(update(log_head).values(forgotten=bound))
    return gone
