"""A journal as lines: when, what, who, where and why; printed as a table with a summary, or given as data.

``hostler journal show`` prints it. Every fact is a line, and so is every action of a step, because that is what people
look for. Each line keeps the number of its entry, by which ``replay``, ``diff`` and ``explain`` name entries too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from hostler.cli.journals.differences import event_line
from hostler.cli.output.decision_texts import amount_text, plural, reasons_text, request_text
from hostler.cli.output.terminal import Column, print_table, printable, say
from hostler.config import did_you_mean
from hostler.config.times import format_time
from hostler.engine.journals.journal import CheckpointEntry, FactEntry, Journal, StepEntry
from hostler.errors import UnknownNameError
from hostler.model import (
    Abandon,
    Action,
    Answered,
    Ask,
    Bind,
    Defer,
    Event,
    Evict,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestsArrived,
    HostChanged,
    HostJoined,
    HostsJoined,
    Move,
    Nominate,
    Prepare,
)
from hostler.queries import display_name
from hostler.queries.journal_guests import GuestDeparture, guests_of

__all__ = ["departure_line", "journal_as_data", "parse_kind", "print_journal"]

STEP, CHECKPOINT = "step", "checkpoint"
_NAMED = 3  # guests of a list that are named
_MS = 1_000_000
_SECOND = 1_000 * _MS
_YEAR_NS = 365 * 86_400 * _SECOND  # smaller times are those of a clock that begins with the run
_IGNORED = frozenset({"version", "spec", "draw_key", "name", "uid"})


class JournalLine(NamedTuple):
    """One fact or action; ``uids`` are the guests that it is about."""

    entry: int
    at: int
    kind: str
    who: str = ""
    where: str = ""
    why: str = ""
    uids: frozenset[str] = frozenset()


def _is_wall_time(at: int) -> bool:
    """Say whether a time is one of a calendar, and not of a clock that begins with the run."""
    return at >= _YEAR_NS


def departure_line(gone: GuestDeparture) -> str:
    """Say when a guest left the run."""
    when = f", {format_time(gone.at)}" if _is_wall_time(gone.at) else ""
    return f"It left the run later, by entry {gone.entry:,} of {plural(gone.entries, 'entry')}{when}."


def _known_kinds() -> list[str]:
    """Return the kinds of lines that there are."""
    tags = [_tag(kind) for union in (Event, Action) for kind in union.__args__]
    return sorted({*tags, STEP, CHECKPOINT})


def parse_kind(text: str) -> str:
    """Return the kind that is meant: ``guest_left`` may be written with a dash or a space."""
    found = text.strip().lower().replace("_", " ").replace("-", " ")
    if found not in _known_kinds():
        raise UnknownNameError(f"there is no kind {text!r}", hint=did_you_mean(found, _known_kinds()))
    return found


def print_journal(journal: Journal, guest: str, kinds: Collection[str]) -> None:
    """Print a journal: who made it, what happened, and how often each kind."""
    header = journal.header
    every, is_wanted = _select_lines(journal, guest, kinds)
    shown = [line for line in every if is_wanted(line)]
    policies = ", ".join(policy.name for policy in header.policies)
    redacted = ", redacted" if header.redacted else ""
    say(printable(f"Made by hostler {header.version}, policies {policies}, seed {header.seed}{redacted}."))
    say()
    if shown:
        _print_lines(shown, header.clock_start)
        say()
    _print_summary(journal, every, shown)


def journal_as_data(journal: Journal, guest: str, kinds: Collection[str]) -> dict[str, object]:
    """Return the wanted entries of a journal as data, each with its number."""
    every, is_wanted = _select_lines(journal, guest, kinds)
    lines: dict[int, list[bool]] = {}
    for line in every:
        lines.setdefault(line.entry, []).append(is_wanted(line))
    entries = []
    for number, entry in enumerate(journal.entries, 1):
        wanted = lines[number]
        if not any(wanted):
            continue
        if isinstance(entry, StepEntry) and entry.actions:
            actions = tuple(action for action, is_one in zip(entry.actions, wanted, strict=True) if is_one)
            entry = msgspec.structs.replace(entry, actions=actions)
        data: dict[str, Any] = msgspec.to_builtins(entry)
        entries.append({"number": number, **data})
    return {"header": msgspec.to_builtins(journal.header), "entries": entries, "torn": journal.torn}


class JournalLines:
    """The lines of a journal; names are learned on the way, because later facts have uids only."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, Guest] = {}
        self._names: dict[str, str] = {}
        for action in _actions(journal):  # those of a checkpoint are named by nothing else
            self._names.setdefault(action.uid, action.guest)

    def lines(self) -> Iterator[JournalLine]:
        """Iterate over all lines."""
        at = self._journal.header.clock_start
        for number, entry in enumerate(self._journal.entries, 1):
            if isinstance(entry, CheckpointEntry):
                yield JournalLine(number, at, CHECKPOINT, why=f"{len(entry.checkpoint):,} bytes")
            elif isinstance(entry, StepEntry):
                at = entry.now
                yield from self._step(number, entry)
            else:
                at = entry.event.at or at
                yield self._fact(number, at, entry.event)

    def uids_of(self, wanted: str) -> frozenset[str]:
        """Return the uids of the guests that are called so: by name, ``namespace/name`` or uid."""
        names = {uid: {uid, name} for uid, name in self._names.items()}
        for entry in self._journal.entries:
            if isinstance(entry, FactEntry):
                for guest in guests_of(entry.event):
                    known = {guest.uid, guest.name, f"{guest.spec.namespace}/{guest.name}"}
                    names.setdefault(guest.uid, set()).update(known)
        found = frozenset(uid for uid, called in names.items() if wanted in called)
        if not found:
            hint = did_you_mean(wanted, {name for called in names.values() for name in called})
            raise UnknownNameError(f"the journal has no guest {wanted!r}", hint=hint or "it names no guests at all")
        return found

    def _step(self, number: int, step: StepEntry) -> Iterator[JournalLine]:
        if not step.actions:
            yield JournalLine(number, step.now, STEP, why="nothing to do")
        for action in step.actions:
            where = getattr(action, "host", "")
            why = self._action(action)
            yield JournalLine(
                number, step.now, _tag(type(action)), self._name(action.uid), where, why, frozenset({action.uid})
            )

    def _fact(self, number: int, at: int, event: Event) -> JournalLine:
        guests = list(guests_of(event))
        uid = getattr(event, "uid", "") if not hasattr(event, "name") else ""
        uids = frozenset(guest.uid for guest in guests) or frozenset({uid} - {""})
        why = self._why(event)
        for guest in guests:
            self._known[guest.uid] = guest
            self._names[guest.uid] = display_name(guest)
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
        return JournalLine(number, at, _tag(type(event)), who, where, why, uids)

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
            case Defer():
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
            case Move():
                whom = f"for {self._name(action.preemptor)}" if action.preemptor else ""
                return "; ".join(filter(None, (f"to {action.target}", whom, action.reason)))
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
        if isinstance(entry, StepEntry):
            yield from entry.actions


def _tag(kind: Any) -> str:  # noqa: ANN401 - a class of a union
    return str(kind.__struct_config__.tag).replace("_", " ")


def _select_lines(
    journal: Journal, guest: str, kinds: Collection[str]
) -> tuple[list[JournalLine], Callable[[JournalLine], bool]]:
    """Return all lines, and a predicate that is true for the wanted ones."""
    source = JournalLines(journal)
    uids = source.uids_of(guest) if guest else frozenset()

    def is_wanted(line: JournalLine) -> bool:
        return (not kinds or line.kind in kinds) and (not guest or not uids.isdisjoint(line.uids))

    return list(source.lines()), is_wanted


def _print_lines(lines: list[JournalLine], start: int) -> None:
    has_dates = _is_wall_time(start)
    columns: list[Column] = [("ENTRY", "right"), ("AFTER", "right")]
    columns += [("TIME", "left")] if has_dates else []
    columns += [("KIND", "left"), ("WHO", "left"), ("WHERE", "left"), ("WHY", "left")]
    rows = []
    for line in lines:
        times = [_after(line.at - start), *([_date(line.at)] if has_dates else [])]
        rows.append([str(line.entry), *times, line.kind, line.who or "-", line.where or "-", line.why])
    print_table(columns, rows)


def _print_summary(journal: Journal, every: list[JournalLine], shown: list[JournalLine]) -> None:
    counts = Counter(type(entry) for entry in journal.entries)
    took = _after(every[-1].at - journal.header.clock_start).lstrip("+") if every else "0s"
    parts = [plural(counts[FactEntry], "fact"), plural(counts[StepEntry], "step")]
    parts += [plural(counts[CheckpointEntry], "checkpoint")] if counts[CheckpointEntry] else []
    say(f"{plural(len(journal.entries), 'entry')} in {took}: {', '.join(parts)}.")
    kinds = Counter(line.kind for line in shown)
    counted = ", ".join(f"{kind} {number:,}" for kind, number in kinds.most_common())
    if len(shown) < len(every):
        say(f"Shown are {len(shown):,} of {plural(len(every), 'line')}{f': {counted}' if counted else ''}.")
    elif counted:
        say(f"By kind: {counted}.")


def _after(passed: int) -> str:
    """Write how long after the start something was, so that it can be read at a glance."""
    if passed < 60 * _SECOND:
        return f"{passed / _SECOND:+.3f}s"
    minutes, seconds = divmod(passed // _SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours}h{minutes:02}m{seconds:02}s" if hours else f"+{minutes}m{seconds:02}s"


def _date(at: int) -> str:
    """Write a time to the millisecond; all of them are as long, so that they stand below each other."""
    return f"{format_time(at - at % _SECOND).removesuffix('Z')}.{at % _SECOND // _MS:03}Z"
