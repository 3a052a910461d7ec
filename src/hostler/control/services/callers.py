"""Who asks, and the trace that every change leaves in the log."""

from __future__ import annotations

import msgspec

from hostler.control.access.principals import Principal
from hostler.control.books.ledger import NEWS, News
from hostler.control.store import Connection, log
from hostler.model import Event

__all__ = ["Caller", "Noted", "note", "tell_engine"]

_ENCODER = msgspec.json.Encoder()


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for something, by which request, and when."""

    principal: Principal
    now_ns: int
    request_id: str = ""

    @property
    def actor(self) -> str:
        """Return how the audit names it."""
        return self.principal.actor


class Noted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an audit entry: what was done (``vm.create``), to what by its name, and by which request."""

    what: str = ""
    text: str = ""
    name: str = ""
    request: str = ""


def note(
    connection: Connection, caller: Caller, what: str, *, subject: str, name: str, project: str = "", text: str = ""
) -> None:
    """Write down for the audit that somebody changed something."""
    body = Noted(what=what, text=text or f"{what} {name}", name=name, request=caller.request_id)
    log.append(connection, [_entry(caller, "note", _ENCODER.encode(body), project, subject)])


def tell_engine(connection: Connection, caller: Caller, fact: Event, *, subject: str, project: str = "") -> None:
    """Tell the engine of a change that is no VM's, and wake those who wait for anything."""
    news = log.NewEntry(at_ns=caller.now_ns, kind="note", body=_ENCODER.encode(News()), subject=NEWS)
    log.append(connection, [_entry(caller, "fact", _ENCODER.encode(fact), project, subject), news])


def _entry(caller: Caller, kind: log.Kind, body: bytes, project: str, subject: str) -> log.NewEntry:
    return log.NewEntry(at_ns=caller.now_ns, kind=kind, body=body, actor=caller.actor, project=project, subject=subject)
