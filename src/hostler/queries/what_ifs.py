"""What-ifs: what would happen to some guests, tried on a twin of the engine that is then discarded.

The front first applies the facts of the question to the twin. Then all waiting guests are decided in the engine's own
order, those in question among them. Evicted guests leave at once, and no outside system is asked. ``try_at_once`` lets
no time pass, because a user is waiting; ``try_to_the_end`` also waits for backoffs to end.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.engine import Engine
from hostler.model import Action, Bind, Defer, Evict, Guest, Move, Nominate
from hostler.queries.runs import NO_ANSWER, UnattendedCarrier, run_until_idle

__all__ = ["TriedEviction", "WhatIfOutcome", "try_at_once", "try_to_the_end"]

_ROUNDS_AT_ONCE = 20  # of evictions that make room, one after the other
_ROUNDS_TO_THE_END = 200  # of decisions, answers and departures; more than any queue that comes to rest needs
_LIMIT = 4096
_PAUSE_NS = 15_000_000_000  # longer than any backoff: every guest that may be tried again is


class TriedEviction(msgspec.Struct, frozen=True):
    """An eviction, or a move instead of one, and the guest before it left its host."""

    action: Evict | Move
    guest: Guest


class WhatIfOutcome(msgspec.Struct):
    """The decisions: chosen hosts, rejections and evictions, by the uid of the guest."""

    hosts: dict[str, str] = {}
    holds: dict[str, list[Defer]] = {}  # in the order in which they were made
    evictions: list[TriedEviction] = []

    def evictions_for(self, uid: str) -> list[TriedEviction]:
        """Return the evictions that make room for a guest."""
        return [one for one in self.evictions if one.action.preemptor == uid]


def try_at_once(engine: Engine) -> WhatIfOutcome:
    """Decide until nothing more happens at this moment. This uses up the engine: pass a twin."""
    engine.search_without_rest()
    carrier = _AtOnceCarrier(engine)
    run_until_idle(engine, engine.now, carrier)
    return carrier.outcome


def try_to_the_end(engine: Engine, now: int) -> WhatIfOutcome:
    """Decide until nothing more happens, with as many tries as needed. This uses up the engine: pass a twin."""
    carrier = _ToTheEndCarrier(engine)
    run_until_idle(engine, now, carrier, most_steps=_ROUNDS_TO_THE_END)
    return carrier.outcome


class _TrialCarrier(UnattendedCarrier):
    """Collects the decisions."""

    def __init__(self, engine: Engine, *, no_answer: str, prepares: bool) -> None:
        super().__init__(engine, no_answer=no_answer, prepares=prepares, observe=self._collect)
        self.outcome = WhatIfOutcome()

    def _collect(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Bind():
                    self.outcome.hosts[action.uid] = action.host
                case Defer():
                    self.outcome.holds.setdefault(action.uid, []).append(action)
                case Evict() | Move():
                    self.outcome.evictions.append(TriedEviction(action, self._engine.view.guest(action.uid)))
                case _:
                    pass


class _AtOnceCarrier(_TrialCarrier):
    """Continues only for evictions and searches, and for a bounded number of rounds."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, no_answer=NO_ANSWER, prepares=False)
        self._rounds = _ROUNDS_AT_ONCE

    def carry_out(self, actions: list[Action], now: int) -> bool:
        super().carry_out(actions, now)
        self._rounds -= 1
        return not self._rounds or not (self.has_news or self._engine.is_searching)

    def next_moment(self, now: int, due: int | None) -> int | None:
        return now  # after evictions the guests that wait are looked at once more, due or not


class _ToTheEndCarrier(_TrialCarrier):
    """Confirms every preparation, and lets backoffs pass while anything happens."""

    limit = _LIMIT

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, no_answer="a plan asks no external scorer", prepares=True)
        self._is_busy = False

    def carry_out(self, actions: list[Action], now: int) -> bool:
        super().carry_out(actions, now)
        self._is_busy = self.has_news or not all(isinstance(action, Nominate) for action in actions)
        return False

    def next_moment(self, now: int, due: int | None) -> int | None:
        return None if due is None or not self._is_busy else now + _PAUSE_NS
