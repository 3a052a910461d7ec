"""What a restore needs from other packages, because the store does not know them: row types, keys, its event.

Rows are decoded with the types of the service, so that the service never fails on one later. Used by the command
``restore``.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from hostler.agent.messages import shorten
from hostler.control.access.keys import KeyBody, make_admin_key
from hostler.control.access.sessions import SigningSecret
from hostler.control.books.follower import Follower, MissingPluginError, Step
from hostler.control.books.ledger import ChangeNotice
from hostler.control.fleet.history_time import RetentionProgress
from hostler.control.fleet.hosts.host_body import HostBody
from hostler.control.schemas import GangCreate, ReservationBody
from hostler.control.services.callers import AuditNote
from hostler.control.services.tenancy.projects import ProjectBody
from hostler.control.services.tenancy.quotas import QuotaBody
from hostler.control.store import Connection
from hostler.control.store.backup.contents import Readers
from hostler.control.store.backup.restored_access import AccessChoices, AccessReport
from hostler.control.store.history.known_heads import LogIdentity
from hostler.control.store.history.log import NewEntry, StoredCheckpoint
from hostler.control.vms.state import Vm
from hostler.model import Event

__all__ = ["READERS", "RESTORED", "access_choices"]

RESTORED = "database.restore"
"""The kind of event that a restore is, and its subject."""

OPERATOR = "operator"


class _Operation(msgspec.Struct):
    """The common part of operations: why one failed, and which amounts a resize named."""

    error: str = ""
    sizes: tuple[str, ...] = ()


def access_choices(confirmed_keys: Sequence[str] = (), revoked_hosts: Sequence[str] = ()) -> AccessChoices:
    """Return an operator's choices for a restore. They keep at least one administrator's key, new if needed."""
    return AccessChoices(
        confirmed_keys=tuple(confirmed_keys),
        revoked_hosts=tuple(revoked_hosts),
        make_admin_key=_make_admin_key,
        note_restore=_note_restore,
    )


def _make_admin_key(connection: Connection, now_ns: int) -> str:
    name = "administrator after a restore"
    return make_admin_key(connection, name=name, now_ns=now_ns, random=secrets.token_bytes)[1]


def _note_restore(source: str, report: AccessReport, now_ns: int) -> NewEntry:
    """Return the event of a restore: its source, and the state of keys, tokens and credentials."""
    name = shorten("".join(letter if letter.isprintable() else "?" for letter in source))
    states = Counter(key.state for key in report.keys)
    credentials = Counter(host.credential for host in report.hosts)
    unchecked = "" if report.is_compared else " as the backup has them"
    parts = [
        f"restored the database from {name}" if name else "restored the database in place",
        f"{_count(states['unconfirmed'], 'key')} unconfirmed, {states['revoked']} revoked",
        f"{_count(len(report.void_tokens), 'join token')} void",
        f"{_count(credentials['accepted'], 'agent credential')} accepted{unchecked}, {credentials['revoked']} revoked",
        "sessions ended",
    ]
    if report.admin_key:
        parts.append("a new administrator's key was made")
    body = msgspec.json.encode(AuditNote(what=RESTORED, text="; ".join(parts), name=name))
    return NewEntry(at_ns=now_ns, kind="note", body=body, actor=OPERATOR, subject=RESTORED)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _json(kind: object) -> Callable[[bytes], object]:
    return msgspec.json.Decoder(kind).decode


def _checkpoint(seq: int, at_ns: int, form: str, body: bytes) -> object:
    """Build the engine that a service would start with; without its own plugins, the digest alone must do."""
    with suppress(MissingPluginError):
        return Follower.restore(StoredCheckpoint(seq=seq, at_ns=at_ns, format=form, body=body))
    return None


READERS: Readers = {
    "fact": _json(Event),
    "step": _json(Step),
    "news": _json(ChangeNotice),
    "note": _json(AuditNote),
    "project": _json(ProjectBody),
    "status": _json(Vm),
    "host": _json(HostBody),
    "key": _json(KeyBody),
    "operation": _json(_Operation),
    "quota": _json(QuotaBody),
    "reservation": _json(ReservationBody),
    "gang": _json(GangCreate),
    "secret": _json(SigningSecret),
    "history time": _json(RetentionProgress),
    "log identity": _json(LogIdentity),
    "presence": _json(dict[str, int]),
    "checkpoint": _checkpoint,
}
"""By what is read."""
