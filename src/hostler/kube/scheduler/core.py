"""The engine, with what may go wrong around it kept inside: facts that it refuses, guests that break a plugin.

Runs where the executor runs it; takes facts, returns actions. One guest that a plugin fails on is set aside with an
error and tried again later, and does not stop the others. Used by ``loop``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from hostler.engine.engine import Engine
from hostler.errors import HostlerError, PluginError
from hostler.kube.scheduler.wording import gang_reasons, hold_messages
from hostler.model import (
    Action,
    BindFailed,
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

__all__ = ["Core", "Driver", "Turn"]


class Driver(Protocol):
    """An engine, or one that also writes a journal."""

    def apply(self, event: Event) -> None:
        """Take a fact."""
        ...

    def step(self, now: int, limit: int | None = None) -> list[Action]:
        """Decide."""
        ...


class Turn(msgspec.Struct, frozen=True):
    """What one turn brought.

    ``refused`` are facts that the engine did not take, ``failed`` guests that it could not decide, with the reasons.
    ``gathering`` are the gangs at hand: why they cannot be tried yet (nothing: they can), and who waits in them.
    ``messages`` says why pods were refused, by uid, ``gang_messages`` why gangs were, by key. ``broken`` are victims
    and the disruption budgets that forbade it. ``due`` says when the next turn is worth while.
    """

    actions: Sequence[Action]
    refused: Sequence[tuple[Event, str]] = ()
    failed: Sequence[tuple[str, str]] = ()
    gathering: Mapping[str, tuple[str, Sequence[str]]] = msgspec.field(default_factory=dict)
    messages: Mapping[str, str] = msgspec.field(default_factory=dict)
    gang_messages: Mapping[str, str] = msgspec.field(default_factory=dict)
    broken: Sequence[tuple[str, str]] = ()
    due: int | None = None
    took_ns: int = 0


class Core:
    """Takes facts and decides."""

    def __init__(self, engine: Engine, driver: Driver | None = None, timer: Callable[[], int] = lambda: 0) -> None:
        self.engine = engine
        self._driver: Driver = driver or engine
        self._timer = timer  # nanoseconds, for measuring only

    def turn(self, events: Sequence[Event], now: int, limit: int) -> Turn:
        """Take the facts, decide at most ``limit`` guests, and say when to come back."""
        began = self._timer()
        refused: list[tuple[Event, str]] = []
        failed: list[tuple[str, str]] = []
        gangs: dict[str, None] = {}
        for event in events:
            gang = self._gang_of(event)  # before a member that leaves is forgotten
            if gang:
                gangs[gang] = None
            try:
                self.apply(event)
            except HostlerError as error:
                refused.append((event, error.message))
        gathering = self._gathering(gangs)
        actions = self._decide(now, limit, failed) if limit > 0 else []
        gangs_said = gang_reasons(self.engine, actions)
        return Turn(
            actions,
            refused,
            failed,
            gathering,
            hold_messages(self.engine, actions, gangs_said),
            gangs_said,
            self._broken(actions),
            self.engine.next_due(),
            self._timer() - began,
        )

    def apply(self, event: Event) -> None:
        """Take a fact; one that the engine refuses raises and changes nothing."""
        try:
            self._driver.apply(event)
        except (HostlerError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if not isinstance(event, PolicyChanged):
                raise
            # New policies make plugins of third parties, whose every attribute may do anything.
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
        """Return the gang that a fact may keep from being tried, or nothing."""
        if isinstance(event, GuestArrived | GuestChanged):
            return event.guest.gang
        if isinstance(event, GuestLeft | BindFailed):
            record = self.engine.view.records.get(event.uid)
            return record.guest.gang if record is not None else ""
        if isinstance(event, GangChanged):
            return event.gang.key
        return event.key if isinstance(event, GangLeft) else ""

    def _gathering(self, keys: Iterable[str]) -> dict[str, tuple[str, Sequence[str]]]:
        """Find out which of the gangs at hand wait for members, and who waits in them."""
        gangs = self.engine.view.gangs
        return {key: (why, gangs.pending(key) if why else ()) for key in keys for why in (gangs.why_not_ready(key),)}

    def _broken(self, actions: Sequence[Action]) -> list[tuple[str, str]]:
        """Find the victims whose budgets allow it no more, now that all are counted; the last ones broke them."""
        return self.engine.view.broken_budgets([action.uid for action in actions if isinstance(action, Evict)])
