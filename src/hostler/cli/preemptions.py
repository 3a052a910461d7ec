"""What a run evicted for whom: collected from its actions while it goes on. Used by ``placement``."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hostler.cli.runs import shown_name
from hostler.config import Fleet
from hostler.engine import Engine
from hostler.model import Action, Budget, Evict, Guest, Nominate

__all__ = ["Eviction", "Nomination", "Preemptions"]


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A guest that made room: who, where, for whom (a guest, or a gang), and why in words."""

    guest: str
    namespace: str
    uid: str
    host: str
    preemptor: str
    reason: str
    broken_budgets: tuple[str, ...] = ()  # that allowed no more evictions

    @property
    def why(self) -> str:
        """Return the reason, with the budgets that it breaks."""
        return "; ".join((self.reason, *(f"breaks budget {name}" for name in self.broken_budgets)))


class Nomination(msgspec.Struct, frozen=True, kw_only=True):
    """A guest for which room was made on a host, and the names of those that had to go."""

    guest: str
    namespace: str
    uid: str
    host: str
    victims: tuple[str, ...]


class Preemptions:
    """Follows a run and remembers evictions and nominations."""

    def __init__(self, engine: Engine, fleet: Fleet) -> None:
        self._engine = engine
        self._guests = {guest.uid: guest for guest in fleet.guests}
        self._budgets = {budget.key: budget for budget in fleet.tenancy.budgets}
        self._left = {key: budget.allowed for key, budget in self._budgets.items()}
        self._evicted: dict[str, Eviction] = {}
        self._nominated: dict[str, Nomination] = {}

    @property
    def evicted(self) -> tuple[Eviction, ...]:
        """Return the evictions in their order."""
        return tuple(self._evicted.values())

    @property
    def nominated(self) -> tuple[Nomination, ...]:
        """Return the last nomination of each guest that had one."""
        return tuple(self._nominated.values())

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """Return the budgets with what they still allow."""
        replace = msgspec.structs.replace
        return tuple(replace(one, allowed=max(self._left[key], 0)) for key, one in self._budgets.items())

    @property
    def gone(self) -> frozenset[str]:
        """Return the uids of the guests that were evicted."""
        return frozenset(self._evicted)

    def note(self, action: Action) -> bool:
        """Take an action in; say whether it was one of these and decides nothing itself."""
        if isinstance(action, Evict):
            self._evict(action.uid, action.host, action.preemptor, action.reason)
            return True
        if isinstance(action, Nominate):
            if action.host and (guest := self._guests.get(action.uid)) is not None:
                self._nominated[action.uid] = Nomination(
                    guest=guest.name,
                    namespace=guest.spec.namespace,
                    uid=guest.uid,
                    host=action.host,
                    victims=action.victims,
                )
            self._take_leaving()
            return True
        return False

    def _take_leaving(self) -> None:
        """Take those in that were leaving already: nobody evicts them, and somebody waits for their room."""
        view = self._engine.view
        for uid, preemptor in view.evicting.items():
            record = view.records[uid]
            if uid not in self._evicted and record.guest.spec.is_leaving:
                self._evict(uid, record.host, preemptor, "was leaving already")

    def _break(self, guest: Guest) -> Iterator[str]:
        """Count an eviction against budgets, and name those that did not allow it; one that goes anyway is counted."""
        for key, budget in self._budgets.items() if not guest.spec.is_leaving else ():
            if budget.concerns(guest):
                self._left[key] -= 1
                if self._left[key] < 0:
                    yield budget.name if budget.namespace == "default" else key

    def _evict(self, uid: str, host: str, preemptor: str, reason: str) -> None:
        guest, by = self._guests[uid], self._guests.get(preemptor)
        self._evicted[uid] = Eviction(
            guest=guest.name,
            namespace=guest.spec.namespace,
            uid=uid,
            host=host,
            preemptor=shown_name(by) if by is not None else preemptor.replace(":", " ", 1),
            reason=reason,
            broken_budgets=tuple(self._break(guest)),
        )
