"""What happened, for people: entries of the log that mean something to them, in order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from hostler.control.api.shapes import Event
from hostler.control.books.ledger import NEWS
from hostler.control.books.parts import Arrived, Bound, Left, Part
from hostler.control.services.callers import Caller, Noted
from hostler.control.services.deeds import deed_text, fact_kind, note_kind
from hostler.control.services.times import at
from hostler.control.store import Connection, hosts, keys, log, vms
from hostler.control.store.errors import NotFoundError
from hostler.model import (
    STORAGE,
    BindFailed,
    EvictFailed,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    HostChanged,
    HostJoined,
    HostLeft,
)
from hostler.model import Event as Fact
from hostler.model.resources import format_resource

__all__ = ["Events", "find_host", "named", "names_of_actors", "read", "show", "show_all"]

_FACT = msgspec.json.Decoder(Fact)
_ARRIVED = msgspec.json.Decoder(Arrived)
_BOUND = msgspec.json.Decoder(Bound)
_LEFT = msgspec.json.Decoder(Left)
_NOTE = msgspec.json.Decoder(Noted)
_AGENT, _KEY = "agent:", "key:"
_KEPT = "vm.kept"
_GROWN = "vm.grown"
_WITHDRAWN = "vm.withdrawn"
_ASKED: dict[Part, str] = {"grow": "more room on its host", "move": "a place on another host"}
_FREED: dict[Part, str] = {"disk": "room for disks", "move": "room on the other host"}


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Some events, and the number after which to go on."""

    items: list[Event]
    after: int
    is_last: bool


def read(
    connection: Connection, caller: Caller, *, after: int, limit: int, project: str = "", subject: str = ""
) -> Events:
    """Return the next events that the caller may see; LogForgottenError when some of them are gone.

    After 0 come the oldest that are still there.
    """
    project = caller.principal.narrowed(project)
    caller.principal.check("event.read", project)
    head = log.head(connection)
    if not after:
        first = log.oldest(connection, 1)
        after = first[0][0] - 1 if first else head
    entries = log.read_after(
        connection, after, limit, kinds=("fact", "note"), project=project or None, subject=subject or None
    )
    shown = named(connection, show_all([entry for entry in entries if entry.subject != NEWS]), caller)
    is_last = len(entries) < limit
    # All that is behind the last one concerns somebody else: it need not be looked through again.
    return Events(items=shown, after=max(head, after) if is_last else entries[-1].seq, is_last=is_last)


def find_host(connection: Connection, word: str, caller: Caller) -> str:
    """Return the id of a host by its name or id, also of one that is gone: what happened to it is still known."""
    caller.principal.check("host.read")
    row = hosts.find_by_name(connection, word) or hosts.find(connection, word) or hosts.find_last_gone(connection, word)
    if row is None:
        raise NotFoundError(f"host {word[:100]} does not exist", hint="list what there is")
    return row.id


def named(connection: Connection, events: list[Event], caller: Caller) -> list[Event]:
    """Return events that name who did something, and to what: nobody knows VMs, hosts and keys by their ids.

    A key is named in its own project, and to those who may list it.
    """
    about = _subjects(connection, events)
    called = names_of_actors(connection, [(event.actor, event.project) for event in events], caller)
    return [
        msgspec.structs.replace(
            event, by=called.get((event.actor, event.project), event.by), about=about.get(event.subject, "")
        )
        for event in events
    ]


def names_of_actors(
    connection: Connection, did: Collection[tuple[str, str]], caller: Caller
) -> dict[tuple[str, str], str]:
    """Return what those are called who did something, by actor and project; see ``named``. Others are left out."""
    agents = hosts.find_some(connection, _ids(did, _AGENT))
    names = {f"{_AGENT}{row.id}": f"agent of {row.name}" for row in agents.values()}
    used = keys.find_keys(connection, _ids(did, _KEY))
    listed = {f"{_KEY}{row.id}": row for row in used.values() if row.name}
    found = {(actor, project): names[actor] for actor, project in did if actor in names}
    for actor, project in did:
        key = listed.get(actor)
        if key is not None and _may_name(key, project, caller):
            found[actor, project] = f"key {key.name}"
    return found


def _subjects(connection: Connection, events: list[Event]) -> dict[str, str]:
    subjects = sorted({event.subject for event in events if event.subject})
    names = {row.id: row.name for row in hosts.find_some(connection, subjects).values()}
    return names | {row.id: row.name for row in vms.find_many(connection, subjects)}


def _ids(did: Collection[tuple[str, str]], kind: str) -> list[str]:
    return sorted({actor.removeprefix(kind) for actor, _ in did if actor.startswith(kind)})


def _may_name(key: keys.ApiKeyRow, project: str, caller: Caller) -> bool:
    is_own = key.id == caller.principal.id or (key.project != "" and key.project == project)
    return is_own or caller.principal.why_not("key.read", key.project) is None


def show_all(entries: Sequence[log.Entry]) -> list[Event]:
    """Return entries in words, in the order of their numbers, with times that never go back.

    Who asked first may be written last, since a time is that of the request. Nobody wants to read it like that.
    """
    found: list[Event] = []
    at_ns = 0
    for entry in entries:
        at_ns = max(at_ns, entry.at_ns)
        found.append(show(msgspec.structs.replace(entry, at_ns=at_ns)))
    return found


def show(entry: log.Entry) -> Event:
    """Return an entry of the log in words."""
    kind, text, request = _words(entry)
    return Event(
        seq=entry.seq,
        at=at(entry.at_ns),
        kind=kind,
        actor=entry.actor,
        by=entry.actor,
        project=entry.project,
        subject=entry.subject,
        text=text,
        request_id=request,
    )


def _words(entry: log.Entry) -> tuple[str, str, str]:
    if entry.kind == "note":
        noted = _NOTE.decode(entry.body)
        is_plain = noted.text == f"{noted.what} {noted.name}"
        text = deed_text(noted.what, noted.name) if is_plain else noted.text
        return noted.what or note_kind(noted.text), text, noted.request
    fact = _FACT.decode(entry.body)
    kind = fact_kind(str(type(fact).__struct_config__.tag))
    match fact:
        case GuestArrived():
            return (_KEPT if fact.guest.host else kind), _arrived(_ARRIVED.decode(entry.body)), ""
        case GuestBound():
            bound = _BOUND.decode(entry.body)
            return kind, f"has more room on {bound.host}" if bound.part == "grow" else f"placed on {bound.host}", ""
        case GuestLeft():
            left = _LEFT.decode(entry.body)
            return (_GROWN if left.is_merged else kind if left.had_room else _WITHDRAWN), _left(left), ""
        case _:
            return kind, _text(fact) or kind.replace(".", " ").replace("_", " "), ""


def _arrived(fact: Arrived) -> str:
    guest = fact.guest
    if not guest.host:
        return f"{guest.name} asks for {_ASKED.get(fact.part, 'a place')}"
    is_disk = all(name == STORAGE for name, amount in guest.spec.requests if amount)
    return f"{guest.name} keeps {'its disks' if is_disk else 'room'} on {guest.host}"


def _left(fact: Left) -> str:
    if fact.is_merged:
        return "has all that it grew by"
    if not fact.had_room:
        return f"no longer asks for {_ASKED.get(fact.part, 'a place')}"
    return f"takes no {_FREED.get(fact.part, 'cpu and memory')} any more"


def _text(fact: Fact) -> str:
    match fact:
        case GuestChanged(guest=guest):
            return _changed(guest)
        case BindFailed(host=host, reason=reason):
            return f"not placed on {host}: {reason}"
        case EvictFailed(reason=reason):
            return f"not evicted: {reason}"
        case HostJoined(host=host):
            return f"host {host.name} joined"
        case HostChanged(host=host):
            return f"host {host.name} changed{': it takes nothing new' if host.cordoned else ''}"
        case HostLeft(name=name):
            return f"host {name} left"
        case _:
            return ""


def _changed(guest: Guest) -> str:
    if guest.spec.is_leaving:
        return f"{guest.name} is to leave {guest.host}"
    amounts = ", ".join(f"{name} {format_resource(name, amount)}" for name, amount in guest.spec.requests if amount)
    return f"{guest.name} {f'takes {amounts} of {guest.host}' if guest.host else f'asks for {amounts}'}"
