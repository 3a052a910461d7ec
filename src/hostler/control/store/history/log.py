"""The log: what the engine was told and when it was stepped, in one order that every replica follows.

Sequence numbers have no gaps and follow the order of commits, on both databases: the writer holds the single row
``log_head`` from the beginning of its transaction and so keeps all others out until COMMIT. Who has seen ``seq`` has
seen all before it. What the works of one transaction append is kept aside and written once, before COMMIT.

``at_ns`` is what the clock of the writer said, as it was: clocks are set, and those of replicas differ, so it may go
back from one entry to the next. Only ``seq`` says what came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Select, bindparam, delete, insert, select, update

from hostler.control.store.errors import LogForgottenError
from hostler.control.store.rows.bulk import insert_all
from hostler.control.store.tables import checkpoints, log, log_head
from hostler.errors import InputError, InternalError

__all__ = [
    "Kind", "NewEntry", "StoredCheckpoint", "StoredEntry", "append", "append_alone", "checkpoint_before",
    "forget_before", "head", "last_before", "oldest", "read_after", "read_before", "replace_checkpoints", "sample",
    "save_checkpoint", "touch",
]  # fmt: skip

Kind = Literal["fact", "step", "note"]

_TAIL = "hostler_log_tail"
_KEPT_CHECKPOINTS = 2  # a service that cannot use the newest one begins with the one before it
# Made once: making them costs SQLAlchemy more than running them costs the database.
_READ_HEAD = select(log_head.c.seq)
_LOCK_HEAD = _READ_HEAD.with_for_update()
_READ_FORGOTTEN = select(log_head.c.forgotten)
_FIELDS = ("seq", "at_ns", "kind", "body", "actor", "project", "subject")
_READ_AFTER = (
    select(*(log.c[name] for name in _FIELDS)).where(log.c.seq > bindparam("after")).order_by(log.c.seq)
).limit(bindparam("most"))
_WRITE_HEAD = update(log_head).values(seq=bindparam("last"))


class NewEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be written to the log."""

    at_ns: int
    kind: Kind
    body: bytes
    actor: str = ""
    project: str = ""
    subject: str = ""


class StoredEntry(NewEntry, frozen=True, kw_only=True):
    """Something that stands in the log."""

    seq: int


class StoredCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Decision state after all entries up to ``seq``; ``format`` says which program can read it."""

    seq: int
    at_ns: int
    format: str
    body: bytes


class _Tail:
    """What a transaction appended so far: ``written`` of these entries are in the table."""

    __slots__ = ("base", "entries", "written")

    def __init__(self, base: int) -> None:
        self.base = base
        self.entries: list[NewEntry] = []
        self.written = 0


def open_tail(connection: Connection) -> int:
    """Wait for the turn to write, and begin to keep aside what is appended; return the head. For the writer.

    On SQLite BEGIN IMMEDIATE has waited already.
    """
    found: int = connection.execute(_LOCK_HEAD).scalar_one()
    connection.info[_TAIL] = _Tail(found)
    return found


def mark(connection: Connection) -> tuple[int, int]:
    """Return where the tail is, to go back to with a savepoint."""
    tail = _tail(connection)
    return len(tail.entries), tail.written


def go_back(connection: Connection, to: tuple[int, int]) -> None:
    """Forget what was appended since a mark; the database has gone back to the savepoint of then."""
    tail = _tail(connection)
    del tail.entries[to[0] :]
    tail.written = to[1]


def close_tail(connection: Connection) -> list[StoredEntry]:
    """Write what was kept aside; return all by which the log grew in this transaction."""
    tail = _tail(connection)
    _flush(connection)
    del connection.info[_TAIL]
    return [
        StoredEntry(seq=seq, **msgspec.structs.asdict(entry)) for seq, entry in enumerate(tail.entries, tail.base + 1)
    ]


def _tail(connection: Connection) -> _Tail:
    found = connection.info.get(_TAIL)
    if not isinstance(found, _Tail):
        raise InternalError("only the writer appends to the log", hint="please report it")
    return found


def _flush(connection: Connection) -> None:
    tail = connection.info.get(_TAIL)
    if tail is None or tail.written == len(tail.entries):
        return
    first = tail.base + tail.written + 1
    rows = [
        {"seq": seq, **msgspec.structs.asdict(entry)} for seq, entry in enumerate(tail.entries[tail.written :], first)
    ]
    tail.written = len(tail.entries)
    connection.execute(_WRITE_HEAD, {"last": tail.base + tail.written})
    insert_all(connection, log, rows)


def append(connection: Connection, entries: Sequence[NewEntry]) -> list[int]:
    """Put entries behind all others and return their numbers."""
    tail = _tail(connection)
    first = tail.base + len(tail.entries) + 1
    tail.entries.extend(entries)
    return list(range(first, first + len(entries)))


def append_alone(connection: Connection, entries: Sequence[NewEntry]) -> None:
    """Put entries behind all others of a database that is not served, in the transaction at hand; not for works."""
    open_tail(connection)
    append(connection, entries)
    close_tail(connection)


def head(connection: Connection) -> int:
    """Return the number of the newest entry, 0 before the first."""
    _flush(connection)
    found: int = connection.execute(_READ_HEAD).scalar_one()
    return found


def read_after(
    connection: Connection,
    seq: int,
    limit: int,
    *,
    kinds: Sequence[Kind] = (),
    project: str | None = None,
    subject: str | None = None,
) -> list[StoredEntry]:
    """Return the next entries after a number; LogForgottenError when some of them are gone."""
    _flush(connection)
    forgotten: int = connection.execute(_READ_FORGOTTEN).scalar_one()
    if seq < forgotten:
        hint = "begin with the latest checkpoint, or list what is there now"
        raise LogForgottenError(f"entries up to {forgotten} are gone, asked for those after {seq}", hint=hint)
    query = _narrowed(_READ_AFTER, kinds, project, subject)
    found = connection.execute(query, {"after": seq, "most": limit})
    return [StoredEntry(**dict(zip(_FIELDS, row, strict=True))) for row in found]


def oldest(connection: Connection, limit: int) -> list[tuple[int, int]]:
    """Return number and time of the first entries that are still there."""
    query = select(log.c.seq, log.c.at_ns).order_by(log.c.seq).limit(limit)
    return [(seq, at_ns) for seq, at_ns in connection.execute(query)]


def last_before(connection: Connection, at_ns: int) -> int:
    """Return the number of the last entry that was written before a time, 0 if none is there.

    Numbers have no gaps, so this takes a few reads of single rows. Where clocks went back it is a number near it.
    """
    first = connection.execute(select(log.c.seq).order_by(log.c.seq).limit(1)).scalar()
    if first is None:
        return 0
    low, high = first - 1, head(connection)  # low is before the time, and what is above high is not
    while low < high:
        middle = (low + high + 1) // 2
        if connection.execute(select(log.c.at_ns).where(log.c.seq == middle)).scalar_one() < at_ns:
            low = middle
        else:
            high = middle - 1
    return int(low)


def sample(connection: Connection, seq: int, count: int) -> list[int]:
    """Return the times of some entries after a number, evenly spread over all of them."""
    last = head(connection)
    numbers = range(last, seq, -max((last - seq) // count, 1))
    return list(connection.execute(select(log.c.at_ns).where(log.c.seq.in_(numbers))).scalars())


def read_before(
    connection: Connection,
    seq: int,
    limit: int,
    *,
    kinds: Sequence[Kind] = (),
    project: str | None = None,
    subject: str | None = None,
    without_subject: str | None = None,
) -> list[StoredEntry]:
    """Return the entries before a number that are still there, newest first: for people who look back."""
    query = select(log).where(log.c.seq < seq).order_by(log.c.seq.desc()).limit(limit)
    query = _narrowed(query, kinds, project, subject)
    if without_subject is not None:
        query = query.where(log.c.subject != without_subject)
    return [StoredEntry(**row) for row in connection.execute(query).mappings()]


def _narrowed(query: Select[Any], kinds: Sequence[Kind], project: str | None, subject: str | None) -> Select[Any]:
    if kinds:
        query = query.where(log.c.kind.in_(kinds))
    if project is not None:
        query = query.where(log.c.project == project)
    if subject is not None:
        query = query.where(log.c.subject == subject)
    return query


def save_checkpoint(connection: Connection, checkpoint: StoredCheckpoint, *, unusable: Sequence[int] = ()) -> None:
    """Keep decision state; one older checkpoint stays beside it. Those at ``unusable`` numbers are removed."""
    newest = head(connection)
    if not 0 <= checkpoint.seq <= newest:
        raise InputError(f"a checkpoint at {checkpoint.seq} of a log that ends at {newest}", hint="checkpoint what is")
    replaced = [*unusable, checkpoint.seq]
    connection.execute(delete(checkpoints).where(checkpoints.c.seq.in_(replaced)))
    connection.execute(insert(checkpoints).values(msgspec.structs.asdict(checkpoint)))
    kept = select(checkpoints.c.seq).order_by(checkpoints.c.seq.desc()).limit(_KEPT_CHECKPOINTS)
    oldest_kept = min(connection.execute(kept).scalars())
    connection.execute(delete(checkpoints).where(checkpoints.c.seq < oldest_kept))


def replace_checkpoints(connection: Connection, checkpoint: StoredCheckpoint) -> None:
    """Keep decision state that does not follow from the log before it; no other checkpoint stays."""
    connection.execute(delete(checkpoints))
    save_checkpoint(connection, checkpoint)


def checkpoint_before(connection: Connection, seq: int | None = None) -> StoredCheckpoint | None:
    """Return the newest decision state that was kept, of those before a number if one is given."""
    query = select(checkpoints).order_by(checkpoints.c.seq.desc()).limit(1)
    if seq is not None:
        query = query.where(checkpoints.c.seq < seq)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else StoredCheckpoint(**row)


def forget_before(connection: Connection, seq: int) -> int:
    """Delete entries before a number, but none that a start may need; return how many.

    A service that cannot use the newest checkpoint begins with the older one, so the log since that one stays. As long
    as there is one checkpoint alone, the whole log stays: it is what a start falls back to. The newest entry stays in
    any case: a process that connects again compares it with what it knows (``continuity``).
    """
    newest = head(connection)
    kept = connection.execute(select(checkpoints.c.seq).order_by(checkpoints.c.seq.desc())).scalars().all()
    if len(kept) < _KEPT_CHECKPOINTS:
        return 0
    bound = min(seq - 1, kept[_KEPT_CHECKPOINTS - 1], newest - 1)
    gone = connection.execute(delete(log).where(log.c.seq <= bound)).rowcount
    if gone:
        connection.execute(update(log_head).values(forgotten=bound))
    return gone


# In the row that every transaction locks anyway. There and back: SQLite writes no row that is as it was.
_THERE, _BACK = (update(log_head).values(forgotten=log_head.c.forgotten + step) for step in (1, -1))


def touch(connection: Connection) -> None:
    """Write a row and leave it as it was: COMMIT then needs the disk, as it does not where nothing was written."""
    connection.execute(_THERE)
    connection.execute(_BACK)
