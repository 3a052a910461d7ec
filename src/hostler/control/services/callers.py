"""The caller of a service, and the audit entry that every change writes."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from hostler.control.access.principals import Principal
from hostler.control.books.ledger import NEWS, ChangeNotice
from hostler.control.store import Connection
from hostler.control.store.history import log
from hostler.engine import BUILT_IN
from hostler.model import Event

__all__ = ["AuditNote", "Caller", "log_fact", "write_audit_note"]

_ENCODER = msgspec.json.Encoder()


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls, in which request, and when."""

    principal: Principal
    now_ns: int
    request_id: str = ""
    strategies: Collection[str] = frozenset(BUILT_IN)  # that a VM or a project may name

    @property
    def actor(self) -> str:
        """Return its name in the audit log."""
        return self.principal.actor


class AuditNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an audit entry: the action (``vm.create``), the name of its object, and the request."""

    what: str = ""
    text: str = ""
    name: str = ""
    request: str = ""
    host: str = ""  # notes about a host name it instead, and have neither what nor name


def write_audit_note(
    connection: Connection, caller: Caller, what: str, *, subject: str, name: str, project: str = "", text: str = ""
) -> None:
    """Write an audit entry for a change."""
    body = AuditNote(what=what, text=text or f"{what} {name}", name=name, request=caller.request_id)
    log.append(connection, [_entry(caller, "note", _ENCODER.encode(body), project, subject)])


def log_fact(connection: Connection, caller: Caller, fact: Event, *, subject: str, project: str = "") -> None:
    """Log a fact for the engine that is not about a VM, and wake all watchers."""
    news = log.NewEntry(at_ns=caller.now_ns, kind="note", body=_ENCODER.encode(ChangeNotice()), subject=NEWS)
    log.append(connection, [_entry(caller, "fact", _ENCODER.encode(fact), project, subject), news])


def _entry(caller: Caller, kind: log.Kind, body: bytes, project: str, subject: str) -> log.NewEntry:
    return log.NewEntry(at_ns=caller.now_ns, kind=kind, body=body, actor=caller.actor, project=project, subject=subject)
