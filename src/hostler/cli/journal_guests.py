"""Whom a journal is about: every guest that it names, and when those left that are gone by its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from hostler.cli.wording import plural
from hostler.config.times import format_time
from hostler.engine import Registry
from hostler.engine.journal import Applied, Journal, Saved, replay
from hostler.errors import JournalError
from hostler.model import Event, Guest, GuestArrived, GuestChanged, GuestLeft, GuestsArrived

__all__ = ["Gone", "guests_gone", "guests_of", "is_wall_time"]

_YEAR_NS = 365 * 86_400 * 1_000_000_000  # smaller times are those of a clock that begins with the run


class Gone(NamedTuple):
    """A guest that left, and the number of the entry that says so."""

    guest: Guest
    entry: int
    text: str


def guests_of(event: Event) -> Iterator[Guest]:
    """Iterate over the guests that a fact describes."""
    if isinstance(event, GuestArrived | GuestChanged):
        yield event.guest
    elif isinstance(event, GuestsArrived):
        uids, hosts = event.uids or event.names, event.hosts or ("",) * len(event.names)
        is_whole = len(event.names) == len(event.spec_of) == len(uids) == len(hosts)
        if not is_whole or any(not 0 <= number < len(event.specs) for number in event.spec_of):
            raise JournalError(
                "the journal has guests that it does not describe: it was written by another program, or changed",
                hint="'hostler journal replay' says at which entry",
            )
        for name, uid, number, host in zip(event.names, uids, event.spec_of, hosts, strict=True):
            yield Guest(name=name, uid=uid, spec=event.specs[number], host=host)


def is_wall_time(at: int) -> bool:
    """Say whether a time is one of a calendar, and not of a clock that begins with the run."""
    return at >= _YEAR_NS


def guests_gone(journal: Journal, present: Iterable[Guest], registry: Registry) -> dict[str, Gone]:
    """Return the guests that left and did not come back, by uid, in the order in which they left."""
    known = {guest.uid: guest for guest in _at_start(journal, registry)}
    gone: dict[str, Gone] = {}
    for number, entry in enumerate(journal.entries, 1):
        if not isinstance(entry, Applied):
            continue
        known |= {guest.uid: guest for guest in guests_of(entry.event)}
        if isinstance(entry.event, GuestLeft) and entry.event.uid in known:
            guest, at = known[entry.event.uid], entry.event.at
            when = f", {format_time(at)}" if is_wall_time(at) else ""
            text = f"It left the run later, by entry {number:,} of {plural(len(journal.entries), 'entry')}{when}."
            gone.pop(guest.uid, None)
            gone[guest.uid] = Gone(guest, number, text)
    for guest in present:
        gone.pop(guest.uid, None)
    return gone


def _at_start(journal: Journal, registry: Registry) -> Sequence[Guest]:
    """Return the guests of the checkpoint with which a rotated journal begins."""
    if not journal.entries or not isinstance(journal.entries[0], Saved):
        return ()
    engine = replay(msgspec.structs.replace(journal, entries=journal.entries[:1]), registry=registry).engine
    return [record.guest for record in engine.view.records.values()]
