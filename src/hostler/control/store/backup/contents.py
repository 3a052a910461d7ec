"""Checks what a database contains before it counts as a backup or as restored. Used by both kinds of backup.

``check_contents`` compares the revision and the log. A database may have intact pages and references and still hold
unreadable values, and then every list with such a value would fail. So ``check_columns`` compares each value with the
type of its column, which SQLite does not enforce, and ``check_bodies`` decodes every column of bytes, which the store
itself never decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

import msgspec
from sqlalchemy import Column, LargeBinary, Table

from hostler.control.store import schema
from hostler.control.store.backup.restored_access import AccessReport
from hostler.control.store.errors import BackupError, NewerDatabaseError
from hostler.control.store.tables import METADATA
from hostler.errors import HostlerError
from hostler.model.vocabulary import plural

__all__ = [
    "BackupReport", "Contents", "QueryRows", "Readers", "Rows", "check_bodies", "check_columns", "check_contents",
    "check_no_triggers", "check_revision",
]  # fmt: skip

_HINT = "take another backup"


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a valid backup contains; after a restore also who may use the database now."""

    path: str
    size_bytes: int
    revision: str
    seq: int
    vms: int
    hosts: int
    access: AccessReport | None = None


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a checked database."""

    revision: str
    seq: int
    vms: int
    hosts: int

    def report(self, path: str, size_bytes: int) -> BackupReport:
        """Return the report for a file or a place."""
        return BackupReport(path=path, size_bytes=size_bytes, **msgspec.structs.asdict(self))


def check_contents(first: Callable[[str], Sequence[Any]], where: str) -> Contents:
    """Check a database: a known revision, a log without gaps. ``first`` returns a query's first row."""
    revision = check_revision(str(first("SELECT version_num FROM alembic_version")[0]), where)
    seq, forgotten = first("SELECT seq, forgotten FROM log_head")
    count, begin, end = first("SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM log")
    if not all(isinstance(number, int) for number in (seq, forgotten, begin, end)):
        raise BackupError(f"{where} is damaged: numbers of the log are not numbers", hint=_HINT)
    whole = (seq - forgotten, forgotten + 1, seq) if seq > forgotten else (0, 0, 0)
    if (count, begin, end) != whole:
        text = f"the log in {where} has gaps: {plural(count, 'entry')} from {begin} to {end}, its head is {seq}"
        raise BackupError(text, hint="take another backup")
    return Contents(
        revision=revision,
        seq=seq,
        vms=first("SELECT count(*) FROM vms WHERE deleted_ns IS NULL")[0],
        hosts=first("SELECT count(*) FROM hosts WHERE deleted_ns IS NULL")[0],
    )


def check_revision(revision: str, where: str) -> str:
    """Return a revision that this program knows; NewerDatabaseError."""
    if not schema.is_known(revision):
        hint = "use the program that made it, or a newer one"
        raise NewerDatabaseError(f"{where} is at revision {revision}, which is newer than this program", hint=hint)
    return revision


def check_no_triggers(names: Sequence[str], where: str) -> None:
    """Reject triggers and views, because they would run inside the service's own transactions."""
    if names:
        hint = "drop them, or take another backup"
        raise BackupError(f"{where} has triggers or rules that are not ours: {', '.join(names)}", hint=hint)


class QueryRows(Protocol):
    """The rows of a query, until it is closed."""

    def __iter__(self) -> Iterator[Any]:
        """Yield them."""
        ...

    def close(self) -> None:
        """Leave the rest."""
        ...


Rows = Callable[[str], QueryRows]
Readers = Mapping[str, Callable[..., object]]
"""By what is read: what reads it, as those who use it do, or raises."""

_ENTRY = "'entry ' || seq || ' of the log', body FROM log WHERE"
_SETTING = "'setting ' || name, body FROM settings WHERE"
# What is read, what names a row to people, where it stands, and which rows are meant.
_BODIES = (
    ("fact", f"{_ENTRY} kind = 'fact'"),
    ("step", f"{_ENTRY} kind = 'step'"),
    ("news", f"{_ENTRY} kind = 'note' AND subject = 'news'"),
    ("note", f"{_ENTRY} kind NOT IN ('fact', 'step') AND NOT (kind = 'note' AND subject = 'news')"),
    ("project", "'project ' || name, body FROM projects"),
    ("status", "'the status of VM ' || id, status FROM vms"),
    ("placement", "'a placement of VM ' || vm, body FROM placements"),
    ("host", "'host ' || name, body FROM hosts"),
    ("key", "'API key ' || id, body FROM api_keys"),
    ("operation", "'operation ' || id, body FROM operations"),
    ("quota", "'the quota of project ' || project, body FROM quotas"),
    ("reservation", "'reservation ' || name || ' of project ' || project, body FROM reservations"),
    ("gang", "'gang ' || name || ' of project ' || project, body FROM gangs"),
    ("secret", f"{_SETTING} project = '' AND name = 'session-secret'"),
    ("history time", f"{_SETTING} project = '' AND name = 'history-time'"),
    ("log identity", f"{_SETTING} project = '' AND name = 'log-identity'"),
    ("presence", f"{_SETTING} project = 'presence'"),
    ("setting", _SETTING.removesuffix(" WHERE")),
    ("checkpoint", "'the checkpoint at ' || seq, seq, at_ns, format, body FROM checkpoints"),
)


class _Secret(msgspec.Struct):
    """A required setting with a secret."""

    secret: bytes


def _as_msgpack(_seq: int, _at_ns: int, _form: str, body: bytes) -> object:
    return msgspec.msgpack.decode(body)


_AS_JSON = msgspec.json.Decoder(dict[str, object]).decode
# For those who bring no readers of their own: whole JSON is all that can be known then.
_PLAIN: Readers = {"secret": msgspec.json.Decoder(_Secret).decode, "checkpoint": _as_msgpack}


def check_columns(rows: Rows, where: str) -> None:
    """Compare all SQLite values with the types of their columns; BackupError names the first mismatch."""
    for table in METADATA.sorted_tables:
        columns = list(table.columns)
        query = f"SELECT {', '.join(map(_read_type, columns))} FROM {table.name}"
        with closing(rows(query)) as found:
            for values in found:
                for column, value in zip(columns, values, strict=True):
                    if not _fits(column, value):
                        raise BackupError(f"{where} is damaged: {_place(table, column, values)}", hint=_HINT)


def _read_type(column: Column[Any]) -> str:
    """Return what is read to know a value's type: for long bytes only the type."""
    return f"typeof({column.name})" if isinstance(column.type, LargeBinary) else column.name


def _fits(column: Column[Any], value: object) -> bool:
    if isinstance(column.type, LargeBinary):
        return value == "blob"
    kind = str if column.type.python_type is str else int
    return isinstance(value, kind) or (value is None and bool(column.nullable))


def _place(table: Table, column: Column[Any], values: Sequence[object]) -> str:
    """Name a value: its column, its table, and the key of its row."""
    row = dict(zip(table.columns.keys(), values, strict=True))
    key = ", ".join(str(row[part.name]) for part in table.primary_key.columns)
    return f"column {column.name} of {table.name} ({key}) has a value of another type"


def check_bodies(rows: Rows, where: str, readers: Readers) -> None:
    """Decode all rows; BackupError names the first that cannot be read. ``rows`` yields the rows of a query."""
    known = {**_PLAIN, **readers}
    for what, source in _BODIES:
        _check(rows(f"SELECT {source}"), known.get(what, _AS_JSON), where)


def _check(found: QueryRows, read: Callable[..., object], where: str) -> None:
    with closing(found):
        for name, *values in found:
            try:
                read(*values)
            except (msgspec.MsgspecError, HostlerError, UnicodeDecodeError, RecursionError, TypeError) as error:
                raise BackupError(f"{where} is damaged: {name} cannot be read: {error}", hint=_HINT) from error
