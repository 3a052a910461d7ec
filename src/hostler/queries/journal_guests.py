"""The guests of a recorded run: every guest in its facts, and when each departed guest left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from hostler.engine import Registry
from hostler.engine.journals.journal import CheckpointEntry, FactEntry, Journal, replay
from hostler.errors import JournalError
from hostler.model import Event, Guest, GuestArrived, GuestChanged, GuestLeft, GuestsArrived

__all__ = ["GuestDeparture", "departures", "guests_of"]


class GuestDeparture(NamedTuple):
    """A guest that left a recorded run: the number of the entry, the number of all entries, and the time."""

    guest: Guest
    entry: int
    entries: int
    at: int


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


def departures(journal: Journal, present: Iterable[Guest], registry: Registry) -> dict[str, GuestDeparture]:
    """Return the guests that left and did not come back, by uid, in the order in which they left."""
    known = {guest.uid: guest for guest in _at_start(journal, registry)}
    gone: dict[str, GuestDeparture] = {}
    for number, entry in enumerate(journal.entries, 1):
        if not isinstance(entry, FactEntry):
            continue
        known |= {guest.uid: guest for guest in guests_of(entry.event)}
        if isinstance(entry.event, GuestLeft) and entry.event.uid in known:
            guest, at = known[entry.event.uid], entry.event.at
            gone.pop(guest.uid, None)
            gone[guest.uid] = GuestDeparture(guest, number, len(journal.entries), at)
    for guest in present:
        gone.pop(guest.uid, None)
    return gone


def _at_start(journal: Journal, registry: Registry) -> Sequence[Guest]:
    """Return the guests of the checkpoint with which a rotated journal begins."""
    if not journal.entries or not isinstance(journal.entries[0], CheckpointEntry):
        return ()
    engine = replay(msgspec.structs.replace(journal, entries=journal.entries[:1]), registry=registry).engine
    return [record.guest for record in engine.view.records.values()]
