"""A journal line by line: when, what, who, where and why. Used by ``hostler journal show``.

Every fact is a line, and so is every action of a step, because that is what people look for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hostler.cli.differences import event_line
from hostler.cli.journal_guests import guests_of
from hostler.cli.runs import shown_name
from hostler.cli.wording import amount_text, plural, reasons_text, request_text
from hostler.config import did_you_mean
from hostler.engine.journal import Applied, Journal, Saved, Stepped
from hostler.errors import UnknownNameError
from hostler.model import (
    Abandon,
    Action,
    Answered,
    Ask,
    Bind,
    Event,
    Evict,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestsArrived,
    Hold,
    HostChanged,
    HostJoined,
    HostsJoined,
    Nominate,
    Prepare,
)

__all__ = ["CHECKPOINT", "STEP", "Line", "Teller", "kind_named", "known_kinds"]

STEP, CHECKPOINT = "step", "checkpoint"
_NAMED = 3  # guests of a list that are named
_IGNORED = frozenset({"version", "spec", "draw_key", "name", "uid"})


class Line(NamedTuple):
    """One fact or action; ``uids`` are the guests that it is about."""

    entry: int
    at: int
    kind: str
    who: str = ""
    where: str = ""
    why: str = ""
    uids: frozenset[str] = frozenset()


def known_kinds() -> list[str]:
    """Return the kinds of lines that there are."""
    tags = [_tag(kind) for union in (Event, Action) for kind in union.__args__]
    return sorted({*tags, STEP, CHECKPOINT})


def kind_named(text: str) -> str:
    """Return the kind that is meant: ``guest_left`` may be written with a dash or a space."""
    found = text.strip().lower().replace("_", " ").replace("-", " ")
    if found not in known_kinds():
        raise UnknownNameError(f"there is no kind {text!r}", hint=did_you_mean(found, known_kinds()))
    return found


class Teller:
    """Tells a journal; it learns names on the way, because later facts have uids only."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, Guest] = {}
        self._names: dict[str, str] = {}
        for action in _actions(journal):  # those of a checkpoint are named by nothing else
            self._names.setdefault(action.uid, action.guest)

    def lines(self) -> Iterator[Line]:
        """Iterate over all lines."""
        at = self._journal.header.clock_start
        for number, entry in enumerate(self._journal.entries, 1):
            if isinstance(entry, Saved):
                yield Line(number, at, CHECKPOINT, why=f"{len(entry.checkpoint):,} bytes")
            elif isinstance(entry, Stepped):
                at = entry.now
                yield from self._step(number, entry)
            else:
                at = entry.event.at or at
                yield self._fact(number, at, entry.event)

    def uids_of(self, wanted: str) -> frozenset[str]:
        """Return the uids of the guests that are called so: by name, ``namespace/name`` or uid."""
        names = {uid: {uid, name} for uid, name in self._names.items()}
        for entry in self._journal.entries:
            if isinstance(entry, Applied):
                for guest in guests_of(entry.event):
                    known = {guest.uid, guest.name, f"{guest.spec.namespace}/{guest.name}"}
                    names.setdefault(guest.uid, set()).update(known)
        found = frozenset(uid for uid, called in names.items() if wanted in called)
        if not found:
            hint = did_you_mean(wanted, {name for called in names.values() for name in called})
            raise UnknownNameError(f"the journal has no guest {wanted!r}", hint=hint or "it names no guests at all")
        return found

    def _step(self, number: int, step: Stepped) -> Iterator[Line]:
        if not step.actions:
            yield Line(number, step.now, STEP, why="nothing to do")
        for action in step.actions:
            where = getattr(action, "host", "")
            why = self._action(action)
            yield Line(
                number, step.now, _tag(type(action)), self._name(action.uid), where, why, frozenset({action.uid})
            )

    def _fact(self, number: int, at: int, event: Event) -> Line:
        guests = list(guests_of(event))
        uid = getattr(event, "uid", "") if not hasattr(event, "name") else ""
        uids = frozenset(guest.uid for guest in guests) or frozenset({uid} - {""})
        why = self._why(event)
        for guest in guests:
            self._known[guest.uid] = guest
            self._names[guest.uid] = shown_name(guest)
        if isinstance(event, GuestsArrived):
            who, where = _listed(event.names), ""
        elif isinstance(event, HostsJoined):
            who, where = _listed(host.name for host in event.hosts), ""
        elif guests:
            who, where = self._name(guests[0].uid), guests[0].host
        elif uid:
            who, where = self._name(uid), getattr(event, "host", "")
        else:
            who, where = event_line(event).partition(" ")[2], ""
        return Line(number, at, _tag(type(event)), who, where, why, uids)

    def _why(self, event: Event) -> str:
        """Say what is new by a fact."""
        if isinstance(event, GuestArrived):
            priority = f", priority {event.guest.spec.priority}" if event.guest.spec.priority else ""
            gang = f", of gang {event.guest.gang}" if event.guest.gang else ""
            return request_text(event.guest.spec) + priority + gang
        if isinstance(event, GuestsArrived):
            return plural(len(event.names), "guest")
        if isinstance(event, HostsJoined):
            return plural(len(event.hosts), "host")
        if isinstance(event, HostJoined | HostChanged):
            return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in event.host.capacity)
        if isinstance(event, GuestChanged):
            return _changes(self._known.get(event.guest.uid), event.guest)
        if isinstance(event, Answered) and not event.error:
            return f"{plural(len(event.scores), 'host')} scored, {len(event.refused):,} refused"
        return getattr(event, "reason", "") or getattr(event, "error", "")

    def _action(self, action: Action) -> str:
        """Say why an action is taken, or what belongs to it."""
        match action:
            case Hold():
                if not action.reasons:
                    return "no host to try"
                return f"0 of {plural(action.hosts, 'host')}: {reasons_text(action.reasons)}"
            case Bind():
                return f"devices {', '.join(map(str, action.devices))}" if action.devices else ""
            case Prepare():
                return f"needs {', '.join(action.needs)}"
            case Ask():
                return f"{action.asked} is asked about {plural(len(action.hosts), 'host')}"
            case Evict():
                return "; ".join(
                    filter(None, (action.preemptor and f"for {self._name(action.preemptor)}", action.reason))
                )
            case Nominate():
                victims = _listed([self._name(uid) for uid in action.victims])
                return f"once gone: {victims}" if victims else "" if action.host else "no longer"
            case Abandon():
                return action.reason

    def _name(self, uid: str) -> str:
        return self._names.get(uid, uid)


def _changes(old: Guest | None, new: Guest) -> str:
    """Name what of a guest is new."""
    if old is None:
        return ""
    names = [
        name for name in new.__struct_fields__ if name not in _IGNORED and getattr(old, name) != getattr(new, name)
    ]
    names += [name for name in new.spec.__struct_fields__ if getattr(old.spec, name) != getattr(new.spec, name)]
    return f"changed: {', '.join(name.replace('_', ' ') for name in names)}" if names else "nothing that counts"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _NAMED:,} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


def _actions(journal: Journal) -> Iterator[Action]:
    for entry in journal.entries:
        if isinstance(entry, Stepped):
            yield from entry.actions


def _tag(kind: Any) -> str:  # noqa: ANN401 - a class of a union
    return str(kind.__struct_config__.tag).replace("_", " ")
