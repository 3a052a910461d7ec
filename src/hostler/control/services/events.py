"""Events for users: log entries that concern them, in order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from hostler.control.books.ledger import NEWS
from hostler.control.books.vm_parts import Part, PartArrival, PartChange, PartDeparture, PartPlacement
from hostler.control.schemas import Event
from hostler.control.services.callers import AuditNote, Caller
from hostler.control.services.event_texts import action_text, fact_kind, note_kind
from hostler.control.services.times import format_time
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.history import log
from hostler.control.store.rows import hosts, keys, vms
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

__all__ = [
    "EventFilter", "Events", "find_host", "names_of_actors", "read", "read_last", "show", "show_all", "with_names",
]  # fmt: skip

_FACT = msgspec.json.Decoder(Fact)
_ARRIVED = msgspec.json.Decoder(PartArrival)
_BOUND = msgspec.json.Decoder(PartPlacement)
_CHANGED = msgspec.json.Decoder(PartChange)
_LEFT = msgspec.json.Decoder(PartDeparture)
_NOTE = msgspec.json.Decoder(AuditNote)
_AGENT, _KEY = "agent:", "key:"
_KEPT = "vm.kept"
_GROWN = "vm.grown"
_WITHDRAWN = "vm.withdrawn"
_INTERNAL = "vm.internal"
_HIDDEN = (_GROWN, _INTERNAL)  # the events of the resize and of its room say the same
_LAST = 2**62  # above every number of the log
_PAGE, _MOST_PAGES = 500, 20  # entries, and how many times as many are read for events of a rare kind
_ASKED: dict[Part, str] = {"grow": "more room on its host", "move": "a place on another host"}
_FREED: dict[Part, str] = {"disk": "room for disks", "move": "room on the other host"}


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Some events, and the number after which to continue."""

    items: list[Event]
    after: int
    is_last: bool


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events: of a project, about one thing by its id, of some kinds, since a time."""

    project: str = ""
    subject: str = ""
    kinds: tuple[str, ...] = ()  # vm.placed, or vm for all kinds of VMs; nothing: all
    since_ns: int = 0

    def has(self, event: Event) -> bool:
        """Say whether an event is of one of the kinds."""
        return not self.kinds or event.kind in self.kinds or event.kind.partition(".")[0] in self.kinds


_ALL = EventFilter()


def read(connection: Connection, caller: Caller, *, after: int, limit: int, wanted: EventFilter = _ALL) -> Events:
    """Return the next events that the caller may see; LogForgottenError if some of them are deleted.

    After 0 come the oldest that are kept. So many entries of the log are read; fewer may be of the wanted kinds.
    """
    project = caller.principal.limit_project(wanted.project)
    caller.principal.check("event.read", project)
    head = log.head(connection)
    if not after:
        first = log.oldest(connection, 1)
        after = first[0][0] - 1 if first else head
    if wanted.since_ns:
        after = max(after, log.last_before(connection, wanted.since_ns))
    shown: list[Event] = []
    is_last = False
    for _ in range(_MOST_PAGES if wanted.kinds else 1):  # a page without any of a rare kind tells a client little
        entries = log.read_after(
            connection, after, limit, kinds=("fact", "note"), project=project or None, subject=wanted.subject or None
        )
        every = show_all([entry for entry in entries if entry.subject != NEWS])
        shown = [event for event in every if wanted.has(event)]
        is_last = len(entries) < limit
        # All that is behind the last one concerns other projects or subjects: it need not be read again.
        after = max(head, after) if is_last else entries[-1].seq
        if shown or is_last:
            break
    return Events(items=with_names(connection, shown, caller), after=after, is_last=is_last)


def read_last(connection: Connection, caller: Caller, *, count: int, wanted: EventFilter = _ALL) -> Events:
    """Return the last events that the caller may see, oldest first, out of the newest entries of the log."""
    project = caller.principal.limit_project(wanted.project)
    caller.principal.check("event.read", project)
    head = log.head(connection)
    first = log.last_before(connection, wanted.since_ns) if wanted.since_ns else 0
    found: list[Event] = []
    before = _LAST
    for _ in range(_MOST_PAGES if count else 0):
        entries = log.read_before(
            connection,
            before,
            _PAGE,
            kinds=("fact", "note"),
            project=project or None,
            subject=wanted.subject or None,
            without_subject=NEWS,
        )
        newer = show_all([entry for entry in reversed(entries) if entry.seq > first])
        found = [*(event for event in newer if wanted.has(event)), *found]
        if len(found) >= count or len(entries) < _PAGE or entries[-1].seq <= first:
            break
        before = entries[-1].seq
    last = found[-count:] if count else []
    return Events(items=with_names(connection, last, caller), after=head, is_last=True)


def find_host(connection: Connection, word: str, caller: Caller) -> str:
    """Return the id of a host by its name or id. Deleted hosts are found too, because their events are kept."""
    caller.principal.check("host.read")
    row = hosts.find_by_name(connection, word) or hosts.find(connection, word) or hosts.find_last_gone(connection, word)
    if row is None:
        raise NotFoundError.of("host", word[:100])
    return row.id


def with_names(connection: Connection, events: list[Event], caller: Caller) -> list[Event]:
    """Return events with the names of actors and subjects, because users do not know ids.

    A key is named within its own project, and to callers who may list keys.
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
    """Return the names of actors by actor and project, as far as the caller may see them; see ``with_names``."""
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


def show_all(entries: Sequence[log.StoredEntry]) -> list[Event]:
    """Return entries as events, without internal ones, in the order of their numbers, with times that never go back.

    The time of an event is that of its request, and a later request may be written first. So times are adjusted.
    """
    found: list[Event] = []
    at_ns = 0
    for entry in entries:
        at_ns = max(at_ns, entry.at_ns)
        event = show(msgspec.structs.replace(entry, at_ns=at_ns))
        if event.kind not in _HIDDEN:
            found.append(event)
    return found


def show(entry: log.StoredEntry) -> Event:
    """Return a log entry as an event."""
    kind, text, request = _kind_and_text(entry)
    return Event(
        seq=entry.seq,
        at=format_time(entry.at_ns),
        kind=kind,
        actor=entry.actor,
        by=entry.actor,
        project=entry.project,
        subject=entry.subject,
        text=text,
        request_id=request,
    )


def _kind_and_text(entry: log.StoredEntry) -> tuple[str, str, str]:
    if entry.kind == "note":
        noted = _NOTE.decode(entry.body)
        is_plain = noted.text == f"{noted.what} {noted.name}"
        text = action_text(noted.what, noted.name) if is_plain else noted.text
        return noted.what or note_kind(noted.text, of_host=bool(noted.host)), text, noted.request
    fact = _FACT.decode(entry.body)
    kind = fact_kind(str(type(fact).__struct_config__.tag))
    match fact:
        case GuestArrived():
            return (_KEPT if fact.guest.host else kind), _arrival_text(_ARRIVED.decode(entry.body)), ""
        case GuestBound():
            bound = _BOUND.decode(entry.body)
            return kind, f"has more room on {bound.host}" if bound.part == "grow" else f"placed on {bound.host}", ""
        case GuestChanged():
            is_internal = _CHANGED.decode(entry.body).is_internal
            return (_INTERNAL if is_internal else kind), _change_text(fact.guest), ""
        case GuestLeft():
            left = _LEFT.decode(entry.body)
            return (_GROWN if left.is_merged else kind if left.had_room else _WITHDRAWN), _departure_text(left), ""
        case _:
            return kind, _text(fact) or kind.replace(".", " ").replace("_", " "), ""


def _arrival_text(fact: PartArrival) -> str:
    guest = fact.guest
    if not guest.host:
        return f"{guest.name} asks for {_ASKED.get(fact.part, 'a place')}"
    is_disk = all(name == STORAGE for name, amount in guest.spec.requests if amount)
    return f"{guest.name} keeps {'its disks' if is_disk else 'room'} on {guest.host}"


def _departure_text(fact: PartDeparture) -> str:
    if fact.is_merged:
        return "has all that it grew by"
    if not fact.had_room:
        return f"no longer asks for {_ASKED.get(fact.part, 'a place')}"
    return f"takes no {_FREED.get(fact.part, 'cpu and memory')} any more"


def _text(fact: Fact) -> str:
    match fact:
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


def _change_text(guest: Guest) -> str:
    if guest.spec.is_leaving:
        return f"{guest.name} is to leave {guest.host}"
    amounts = ", ".join(f"{name} {format_resource(name, amount)}" for name, amount in guest.spec.requests if amount)
    return f"{guest.name} {f'takes {amounts} of {guest.host}' if guest.host else f'asks for {amounts}'}"
