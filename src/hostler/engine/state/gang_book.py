"""Gangs by key, with their members: which are present, which are placed, and which gangs are below their minimum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hostler.engine.state.records import ASKED, PLACED_STATES, GuestRecord
from hostler.engine.state.search_shares import SearchBook
from hostler.model import Gang
from hostler.model.decisions import DecisionNote
from hostler.model.notes import GANG_GATHERS, GANG_UNKNOWN

__all__ = ["GANG", "GangBook"]

GANG = "gang:"  # what a gang's queue entry is called before its name


class GangBook:
    """All gangs. Members may arrive before their gang, and a gang before its members."""

    def __init__(self, guests: Callable[[], Mapping[str, GuestRecord]]) -> None:
        self._guests = guests
        self.gangs: dict[str, Gang] = {}
        self.members: dict[str, dict[str, None]] = {}
        self.units: dict[str, None] = {}  # gangs that are only evicted as a whole
        self.broken_since: dict[str, int] = {}
        self.refusals: dict[str, int] = {}  # in a row
        self.searches = SearchBook()
        self.reserving = ""  # the gang that holds the room it could use while it waits

    def put(self, gang: Gang) -> None:
        """Add or change a gang."""
        self.gangs[gang.key] = gang
        self.units.pop(gang.key, None)
        if gang.disruption == "all":
            self.units[gang.key] = None

    def remove(self, key: str) -> None:
        """Forget a gang; its members stay."""
        self.gangs.pop(key, None)
        self.units.pop(key, None)
        self.broken_since.pop(key, None)
        self.refusals.pop(key, None)
        self.searches.positions.pop(key, None)

    def enter(self, key: str, uid: str) -> None:
        """Add a member."""
        self.members.setdefault(key, {})[uid] = None

    def leave(self, key: str, uid: str) -> None:
        """Remove a member."""
        members = self.members.get(key)
        if members is not None:
            members.pop(uid, None)
            if not members:
                del self.members[key]

    def placed(self, key: str) -> list[str]:
        """Return the members that are placed."""
        guests = self._guests()
        return [uid for uid in self.members.get(key, ()) if guests[uid].state in PLACED_STATES]

    def pending(self, key: str) -> list[str]:
        """Return the members that are not placed, in order of arrival."""
        guests = self._guests()
        return [uid for uid in self.members.get(key, ()) if guests[uid].state not in PLACED_STATES]

    def is_asked(self, key: str) -> bool:
        """Say whether an answer from outside is awaited for any member."""
        guests = self._guests()
        return any(guests[uid].state == ASKED for uid in self.members.get(key, ()))

    def priority(self, key: str) -> int:
        """Return the gang's priority: its own, or the lowest of its members if it has none."""
        gang = self.gangs.get(key)
        if gang is not None and gang.priority is not None:
            return gang.priority
        guests = self._guests()
        return min((guests[uid].guest.spec.priority for uid in self.members.get(key, ())), default=0)

    def priority_of(self, record: GuestRecord) -> int:
        """Return the priority that counts for a guest: its gang's if that has one, else its own."""
        gang = self.gangs.get(record.guest.gang) if record.guest.gang else None
        own = record.guest.spec.priority
        return gang.priority if gang is not None and gang.priority is not None else own

    def gang_disrupted_as_one(self, key: str) -> Gang | None:
        """Return a guest's gang if its members may only be evicted together."""
        return self.gangs[key] if key in self.units else None

    def why_not_ready(self, key: str) -> DecisionNote | None:
        """Say why a gang cannot be tried yet; None when it can."""
        gang = self.gangs.get(key)
        if gang is None:
            return DecisionNote(GANG_UNKNOWN, key)
        there = len(self.members.get(key, ()))
        return DecisionNote(GANG_GATHERS, key, there, gang.min_count) if there < gang.min_count else None

    def copy(self, guests: Callable[[], Mapping[str, GuestRecord]]) -> GangBook:
        """Return an independent copy."""
        twin = GangBook(guests)
        twin.gangs = self.gangs.copy()
        twin.members = {key: members.copy() for key, members in self.members.items()}
        twin.units = self.units.copy()
        twin.broken_since = self.broken_since.copy()
        twin.refusals = self.refusals.copy()
        twin.searches = self.searches.copy()
        twin.reserving = self.reserving
        return twin
