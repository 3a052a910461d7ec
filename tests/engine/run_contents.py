"""What happens in a random run: each kind of event is counted, so that a test can demand that runs contain all of them.

``RunContents`` looks at the warm engine before and after its steps and changes nothing. A new kind needs a line in
``KINDS`` and a place where ``_saw`` is called with it.
"""

from __future__ import annotations

from collections import Counter

from hostler.engine import Engine
from hostler.engine.plugins.across_guests import GuestAffinity, SpreadFilter
from hostler.engine.preemption.victims import allowed_disruptions
from hostler.engine.state.records import ASKED, PREPARING, QUEUED
from hostler.model import (
    Action,
    Bind,
    BindFailed,
    Evict,
    EvictFailed,
    GuestLeft,
    HostJoined,
    HostLeft,
    Move,
    NamespaceChanged,
    PolicyChanged,
)
from tests.engine.random_runs import RunStep

__all__ = ["KINDS", "RunContents"]

KINDS = (
    "preemption",
    "nomination held across steps",
    "nomination ended without a bind",
    "victim still stops after a step",
    "another guest leaves the host of a nomination",
    "victim moves",
    "victim and its replacement have room",
    "move that failed",
    "failed eviction",
    "failed bind",
    "rejection by affinity",
    "rejection by spreading",
    "gang placed",
    "gang search paused",
    "gang search continued",
    "cache slot evicted while others stay",
    "rejection by a quota",
    "reservation in force",
    "budget used up",
    "name released",
    "released name used again",
    "ask in flight",
    "guest prepared",
    "guest parked",
    "host left",
    "host joined again",
    "policies changed",
    "namespace labels changed",
)


class RunContents:
    """Counts what happens in one run."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self._nominated: dict[str, str] = {}
        self._searches: set[str] = set()
        self._slots: set[tuple[int, int]] = set()
        self._names: set[str] = set()
        self._released: set[str] = set()
        self._hosts_left: set[str] = set()
        self._policies: tuple[object, ...] = ()

    def _saw(self, kind: str, times: int = 1) -> None:
        assert kind in KINDS, kind
        if times:
            self.found[kind] += times

    def before(self, engine: Engine, turn: RunStep) -> None:
        """Look at the facts of a turn before the engine is given them."""
        state = engine.state
        self._nominated = {uid: nomination.host for uid, nomination in state.nominations.items()}
        self._searches = set(state.gangs.searches.positions)
        self._policies = engine.policies
        self._slots = set(state.cache._slot_of)
        for fact in turn.facts:
            match fact:
                case GuestLeft(uid=uid) if uid in state.guests:
                    host = state.guests[uid].host
                    self._saw("move that failed", sum(move.replacement == uid for move in state.moves.values()))
                    holds = any(
                        found.host == host and uid not in found.victims for found in state.nominations.values() if host
                    )
                    self._saw("another guest leaves the host of a nomination", int(holds))
                case HostLeft(name=name) if name in state.cluster.row_of:
                    self._saw("host left")
                    self._hosts_left.add(name)
                case HostJoined(host=host) if host.name in self._hosts_left:
                    self._saw("host joined again")
                    self._hosts_left.discard(host.name)
                case EvictFailed(uid=uid) if uid in state.moves:
                    self._saw("move that failed")
                case EvictFailed():
                    self._saw("failed eviction")
                case BindFailed():
                    self._saw("failed bind")
                case NamespaceChanged(name=name, labels=labels):
                    self._saw(
                        "namespace labels changed", int(state.cluster.counters.namespaces.get(name, ()) != labels)
                    )
                case PolicyChanged():
                    self._saw("policies changed")
                case _:
                    pass

    def after(self, engine: Engine, actions: list[Action]) -> None:
        """Look at what a step left behind."""
        state = engine.state
        bound = {action.uid for action in actions if isinstance(action, Bind)}
        self._saw("preemption", sum(isinstance(action, Evict) for action in actions))
        self._saw("victim moves", sum(isinstance(action, Move) for action in actions))
        self._saw("victim and its replacement have room", sum(bool(m.replacement) for m in state.moves.values()))
        for uid, host in self._nominated.items():
            kept = state.nominations.get(uid)
            if kept is not None and kept.host == host:
                self._saw("nomination held across steps")
            elif uid not in bound:
                self._saw("nomination ended without a bind")
        self._saw("victim still stops after a step", int(bool(state.evicting)))
        self._saw("gang placed", len({state.guests[uid].guest.gang for uid in bound if uid in state.guests} - {""}))
        searches = set(state.gangs.searches.positions)
        self._saw("gang search paused", len(searches - self._searches))
        self._saw("gang search continued", len(self._searches))
        kept_slots = set(state.cache._slot_of)
        gone = self._slots - kept_slots
        lost = [key for key in gone if any(r.shape == key[0] for r in state.guests.values())]
        if kept_slots & self._slots and self._policies == engine.policies:
            self._saw("cache slot evicted while others stay", len(lost))
        for record in state.guests.values():
            plugins = {reason.plugin for reason, _ in record.reasons} if record.state == QUEUED else set()
            self._saw("rejection by affinity", int(GuestAffinity.name in plugins))
            self._saw("rejection by spreading", int(SpreadFilter.name in plugins))
            self._saw("rejection by a quota", int("quota" in plugins))
            self._saw("ask in flight", int(record.state == ASKED))
            self._saw("guest prepared", int(record.state == PREPARING))
            self._saw("guest parked", int(state.is_parked(record)))
        self._saw("reservation in force", len(state.in_force))
        allowed = allowed_disruptions(state) if state.nominations else {}
        self._saw("budget used up", sum(left <= 0 for left in allowed.values()))
        self._follow_names(engine)

    def _follow_names(self, engine: Engine) -> None:
        tables = engine.state.tables
        named = (("resource", tables.resources), ("kind", tables.kinds), ("model", tables.models))
        now = {f"{what} {name}" for what, table in named for name in table.values if name}
        released = self._names - now
        self._saw("name released", len(released))
        self._saw("released name used again", len(now & self._released))
        self._released = (self._released | released) - now
        self._names = now
