"""Whether what the rows of a database hold can be read: columns of bytes, which the store itself never looks into.

A database may be whole, every page and reference of it, and hold bytes that nobody can read: damaged before they were
backed up, or by hand. The service would fail on them later, on whatever list they are part of. Used by both kinds of
restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Protocol

import msgspec

from hostler.control.store.errors import BackupError
from hostler.errors import HostlerError

__all__ = ["Found", "Readers", "Rows", "check_bodies"]


class Found(Protocol):
    """What a query found: rows until it is closed."""

    def __iter__(self) -> Iterator[Any]:
        """Yield them."""
        ...

    def close(self) -> None:
        """Leave the rest."""
        ...


Rows = Callable[[str], Found]
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
    ("spec", "'the spec of VM ' || id, spec FROM vms"),
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
_HINT = "take another backup"


class _Secret(msgspec.Struct):
    """What no service starts without."""

    secret: bytes


def _as_msgpack(_seq: int, _at_ns: int, _form: str, body: bytes) -> object:
    return msgspec.msgpack.decode(body)


_AS_JSON = msgspec.json.Decoder(dict[str, object]).decode
# For those who bring no readers of their own: whole JSON is all that can be known then.
_PLAIN: Readers = {"secret": msgspec.json.Decoder(_Secret).decode, "checkpoint": _as_msgpack}


def check_bodies(rows: Rows, where: str, readers: Readers) -> None:
    """Read all that rows hold; BackupError names the first that cannot be read. ``rows`` yields those of a query."""
    known = {**_PLAIN, **readers}
    for what, source in _BODIES:
        _check(rows(f"SELECT {source}"), known.get(what, _AS_JSON), where)


def _check(found: Found, read: Callable[..., object], where: str) -> None:
    with closing(found):
        for name, *values in found:
            try:
                read(*values)
            except (msgspec.MsgspecError, HostlerError, UnicodeDecodeError, RecursionError, TypeError) as error:
                raise BackupError(f"{where} is damaged: {name} cannot be read: {error}", hint=_HINT) from error
