"""What a database holds, looked over before it counts as a backup or as restored. Used by both kinds of backup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hostler.control.store import schema
from hostler.control.store.errors import BackupError, NewerDatabaseError
from hostler.control.store.restored_access import AccessReport

__all__ = ["BackupReport", "Contents", "check_contents", "check_no_triggers", "check_revision"]


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a good backup holds; of a restore also who may use the database now."""

    path: str
    size_bytes: int
    revision: str
    seq: int
    vms: int
    hosts: int
    access: AccessReport | None = None


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a database holds that was looked over."""

    revision: str
    seq: int
    vms: int
    hosts: int

    def report(self, path: str, size_bytes: int) -> BackupReport:
        """Return the same, of a file or a place."""
        return BackupReport(path=path, size_bytes=size_bytes, **msgspec.structs.asdict(self))


def check_contents(first: Callable[[str], Sequence[Any]], where: str) -> Contents:
    """Look a database over: a revision that we know, a log without gaps. ``first`` returns a query's first row."""
    revision = check_revision(str(first("SELECT version_num FROM alembic_version")[0]), where)
    seq, forgotten = first("SELECT seq, forgotten FROM log_head")
    count, begin, end = first("SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM log")
    whole = (seq - forgotten, forgotten + 1, seq) if seq > forgotten else (0, 0, 0)
    if (count, begin, end) != whole:
        text = f"the log in {where} has gaps: {count} entries from {begin} to {end}, its head is {seq}"
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
    """Refuse what would run inside the service's own transactions, by its names; it has nothing of the kind itself."""
    if names:
        hint = "drop them, or take another backup"
        raise BackupError(f"{where} has triggers or rules that are not ours: {', '.join(names)}", hint=hint)
