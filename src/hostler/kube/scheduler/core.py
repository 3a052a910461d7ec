"""The engine, with failures around it contained: facts that it rejects, and guests on which a plugin fails.

Runs on the engine's thread; takes facts, returns actions. A guest on which a plugin fails is set aside with an error
and retried later, without stopping the others. Used by ``loop``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from hostler.engine.engine import Engine
from hostler.errors import HostlerError, PluginError
from hostler.kube.scheduler.messages import gang_reasons, hold_messages
from hostler.model import (
    Action,
    Bind,
    BindFailed,
    DecisionNote,
    Event,
    Evict,
    GangChanged,
    GangLeft,
    GuestArrived,
    GuestChanged,
    GuestFailed,
    GuestLeft,
    PolicyChanged,
)
from hostler.queries import MixRenewal

__all__ = ["Core", "EngineDriver", "TurnResult"]


class EngineDriver(Protocol):
    """An engine, or one that also writes a journal."""

    def apply(self, event: Event) -> None:
        """Apply a fact."""
        ...

    def step(self, now: int, limit: int | None = None) -> list[Action]:
        """Decide."""
        ...


class TurnResult(msgspec.Struct, frozen=True):
    """The result of one turn.

    ``refused`` are facts that the engine rejected, ``failed`` guests that it could not decide, with the reasons.
    ``gathering`` are the affected gangs: why they cannot be tried yet (empty if they can), and their waiting members.
    ``messages`` are the reasons of unschedulable pods by uid, ``gang_messages`` those of gangs by key. ``broken`` are
    victims and the disruption budgets that forbade their eviction. ``tries`` are those of each pod that got a node.
    ``due`` is when the next turn is worthwhile.
    """

    actions: Sequence[Action]
    refused: Sequence[tuple[Event, str]] = ()
    failed: Sequence[tuple[str, str]] = ()
    gathering: Mapping[str, tuple[DecisionNote | None, Sequence[str]]] = msgspec.field(default_factory=dict)
    messages: Mapping[str, str] = msgspec.field(default_factory=dict)
    gang_messages: Mapping[str, str] = msgspec.field(default_factory=dict)
    broken: Sequence[tuple[str, str]] = ()
    tries: Mapping[str, int] = msgspec.field(default_factory=dict)
    due: int | None = None
    took_ns: int = 0


class Core:
    """Applies facts and decides."""

    def __init__(
        self,
        engine: Engine,
        driver: EngineDriver | None = None,
        timer: Callable[[], int] = lambda: 0,
        mixes: MixRenewal | None = None,
    ) -> None:
        self.engine = engine
        self.mixes = mixes or MixRenewal(())
        self._driver: EngineDriver = driver or engine
        self._timer = timer  # nanoseconds, for measurements only

    def turn(self, events: Sequence[Event], now: int, limit: int) -> TurnResult:
        """Apply the facts, decide at most ``limit`` guests, and return when to come back."""
        began = self._timer()
        refused: list[tuple[Event, str]] = []
        failed: list[tuple[str, str]] = []
        gangs: dict[str, None] = {}
        for event in events:
            gang = self._gang_of(event)  # before a leaving member is forgotten
            if gang:
                gangs[gang] = None
            try:
                self.apply(event)
            except HostlerError as error:
                refused.append((event, error.message))
        self._renew_mixes(now, has_news=bool(events))
        gathering = self._gathering_gangs(gangs)
        actions = self._decide(now, limit, failed) if limit > 0 else []
        gangs_said = gang_reasons(self.engine, actions)
        return TurnResult(
            actions,
            refused,
            failed,
            gathering,
            hold_messages(self.engine, actions, gangs_said),
            gangs_said,
            self._broken(actions),
            self._tries(actions),
            self._next_due(),
            self._timer() - began,
        )

    def _renew_mixes(self, now: int, *, has_news: bool) -> None:
        """Update the typical mix that the engine measures by, before it decides."""
        if has_news:
            self.mixes.note_news()
        if change := self.mixes.renew(self.engine, now):
            self._driver.apply(change)

    def _next_due(self) -> int | None:
        times = [at for at in (self.engine.next_due(), self.mixes.due()) if at is not None]
        return min(times, default=None)

    def apply(self, event: Event) -> None:
        """Apply a fact. A fact that the engine rejects raises and changes nothing."""
        try:
            self._driver.apply(event)
        except (HostlerError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if not isinstance(event, PolicyChanged):
                raise
            # New policies create third-party plugins, and any of their attributes may raise.
            text = f"a plugin of the new policies failed: {type(error).__name__}: {error}"
            raise PluginError(text.encode(errors="backslashreplace").decode()) from error

    def _decide(self, now: int, limit: int, failed: list[tuple[str, str]]) -> list[Action]:
        try:
            return self._driver.step(now, limit)
        except Exception:
            pass
        try:
            return self._driver.step(now, 1)
        except Exception as error:
            uid = self.engine.next_guest()
            if uid is None:
                raise
            why = error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
            self._driver.apply(GuestFailed(uid=uid, reason=why))
            failed.append((uid, why))
            return []

    def _gang_of(self, event: Event) -> str:
        """Return the gang that a fact may keep from being tried, or an empty string."""
        if isinstance(event, GuestArrived | GuestChanged):
            return event.guest.gang
        if isinstance(event, GuestLeft | BindFailed):
            record = self.engine.view.records.get(event.uid)
            return record.guest.gang if record is not None else ""
        if isinstance(event, GangChanged):
            return event.gang.key
        return event.key if isinstance(event, GangLeft) else ""

    def _gathering_gangs(self, keys: Iterable[str]) -> dict[str, tuple[DecisionNote | None, Sequence[str]]]:
        """Return which of the affected gangs wait for members, and their waiting members."""
        gangs = self.engine.view.gangs
        return {key: (why, gangs.pending(key) if why else ()) for key in keys for why in (gangs.why_not_ready(key),)}

    def _tries(self, actions: Sequence[Action]) -> dict[str, int]:
        """Return how often each guest was tried that has a host now."""
        records = self.engine.view.records
        return {action.uid: records[action.uid].attempts for action in actions if isinstance(action, Bind)}

    def _broken(self, actions: Sequence[Action]) -> list[tuple[str, str]]:
        """Return the victims whose budgets are overdrawn now that all are counted; the last victims broke them."""
        return self.engine.view.broken_budgets([action.uid for action in actions if isinstance(action, Evict)])
