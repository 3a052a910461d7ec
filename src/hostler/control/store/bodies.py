"""Whether what the rows of a database hold can be read: columns of bytes, which the store itself never looks into.

A database may be whole, every page and reference of it, and hold bytes that nobody can read: damaged before they were
backed up, or by hand. The service would fail on them later, on whatever list they are part of. Used by both kinds of
restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Protocol

import msgspec

from hostler.control.store.errors import BackupError

__all__ = ["Found", "Rows", "check_bodies"]


class Found(Protocol):
    """What a query found: rows until it is closed."""

    def __iter__(self) -> Iterator[Any]:
        """Yield them."""
        ...

    def close(self) -> None:
        """Leave the rest."""
        ...


Rows = Callable[[str], Found]

# Table, column, and what names a row to people.
_JSON = (
    ("log", "body", "'entry ' || seq || ' of the log'"),
    ("projects", "body", "'project ' || name"),
    ("vms", "spec", "'the spec of VM ' || id"),
    ("vms", "status", "'the status of VM ' || id"),
    ("placements", "body", "'a placement of VM ' || vm"),
    ("hosts", "body", "'host ' || name"),
    ("api_keys", "body", "'API key ' || id"),
    ("operations", "body", "'operation ' || id"),
    ("quotas", "body", "'the quota of project ' || project"),
    ("reservations", "body", "'reservation ' || name || ' of project ' || project"),
    ("gangs", "body", "'gang ' || name || ' of project ' || project"),
    ("settings", "body", "'setting ' || name"),
)
_CHECKPOINTS = "SELECT 'the checkpoint at ' || seq, body FROM checkpoints"
_SECRET = "SELECT 'setting ' || name, body FROM settings WHERE project = '' AND name = 'session-secret'"
_HINT = "take another backup"


class _Secret(msgspec.Struct):
    """What no service starts without."""

    secret: bytes


def check_bodies(rows: Rows, where: str) -> None:
    """Read all that rows hold; BackupError names the first that cannot be read. ``rows`` yields those of a query."""
    as_json = msgspec.json.Decoder(dict[str, object])
    for table, column, name in _JSON:
        _check(rows(f"SELECT {name}, {column} FROM {table}"), as_json.decode, where)
    _check(rows(_CHECKPOINTS), msgspec.msgpack.Decoder().decode, where)
    _check(rows(_SECRET), msgspec.json.Decoder(_Secret).decode, where)


def _check(found: Found, decode: Callable[[bytes], object], where: str) -> None:
    with closing(found):
        for name, body in found:
            try:
                decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
                raise BackupError(f"{where} is damaged: {name} cannot be read: {error}", hint=_HINT) from error
