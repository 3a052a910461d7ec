"""Evictions and nominations of a run, collected from its actions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.engine import Engine
from hostler.model import Action, Budget, Evict, Guest, Nominate
from hostler.queries.inputs import display_name

__all__ = ["BudgetCount", "Eviction", "Nomination", "Preemptions"]


class BudgetCount:
    """Disruption budgets, reduced by each eviction."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._budgets = {budget.key: budget for budget in budgets}
        self._left = {key: budget.allowed for key, budget in self._budgets.items()}

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """Return the budgets with what they still allow."""
        replace = msgspec.structs.replace
        return tuple(replace(one, allowed=max(self._left[key], 0)) for key, one in self._budgets.items())

    def charge(self, guest: Guest) -> list[Budget]:
        """Count an eviction; return the budgets that it breaks. A guest that is leaving anyway breaks none."""
        broken = []
        for key, budget in self._budgets.items() if not guest.spec.is_leaving else ():
            if budget.concerns(guest):
                self._left[key] -= 1
                if self._left[key] < 0:
                    broken.append(budget)
        return broken


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """An evicted guest: its host, the guest or gang that it made room for, and the reason as text."""

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
    """A guest that got room on a host by evictions, and the names of its victims."""

    guest: str
    namespace: str
    uid: str
    host: str
    victims: tuple[str, ...]


class Preemptions:
    """Follows a run and collects evictions and nominations."""

    def __init__(self, engine: Engine, guests: Iterable[Guest], budgets: Iterable[Budget]) -> None:
        self._engine = engine
        self._guests = {guest.uid: guest for guest in guests}
        self._budgets = BudgetCount(budgets)
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
        return self._budgets.budgets

    @property
    def gone(self) -> frozenset[str]:
        """Return the uids of the guests that were evicted."""
        return frozenset(self._evicted)

    def note(self, action: Action) -> bool:
        """Handle an action; return whether it is an eviction or a nomination and so decides nothing."""
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
            self._note_leaving()
            return True
        return False

    def _note_leaving(self) -> None:
        """Handle guests that were already leaving: no action evicts them, and another guest needs their room."""
        view = self._engine.view
        for uid, preemptor in view.evicting.items():
            record = view.records[uid]
            if uid not in self._evicted and record.guest.spec.is_leaving:
                self._evict(uid, record.host, preemptor, "was leaving already")

    def _evict(self, uid: str, host: str, preemptor: str, reason: str) -> None:
        guest, by = self._guests[uid], self._guests.get(preemptor)
        broken = self._budgets.charge(guest)
        self._evicted[uid] = Eviction(
            guest=guest.name,
            namespace=guest.spec.namespace,
            uid=uid,
            host=host,
            preemptor=display_name(by) if by is not None else preemptor.replace(":", " ", 1),
            reason=reason,
            broken_budgets=tuple(one.name if one.namespace == "default" else one.key for one in broken),
        )
