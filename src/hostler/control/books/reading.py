"""Why a guest waits, in one sentence, and what a step must be remembered with. Used by the leader after each step."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.control.books.deciding import Decided
from hostler.control.books.follower import Step
from hostler.engine import Engine
from hostler.model import Action, Bind, Evict, Hold, Reason

__all__ = ["remembered", "why_held"]

_MOST_REASONS = 6


def remembered(engine: Engine, step: Step, actions: Sequence[Action]) -> Decided:
    """Return what a step decided, with what only the engine knows."""
    versions: dict[str, int] = {}
    reasons: dict[str, str] = {}
    evictions: dict[str, str] = {}
    for action in actions:
        match action:
            case Bind():
                versions[action.uid] = engine.state.guests[action.uid].guest.version
            case Hold():
                reasons[action.uid] = why_held(action)
            case Evict():
                evictions[action.uid] = action.reason or "it makes room for a VM of higher priority"
    return Decided(step=step, actions=actions, versions=versions, reasons=reasons, evictions=evictions)


def why_held(hold: Hold) -> str:
    """Say why a guest was placed nowhere."""
    if not hold.hosts:
        return "there is no host"
    ordered = sorted(hold.reasons, key=lambda count: (-count.hosts, count.reason.text()))
    shown = ", ".join(f"{count.hosts} {_words(count.reason)}" for count in ordered[:_MOST_REASONS])
    more = len(ordered) - _MOST_REASONS
    return f"0 of {hold.hosts} hosts: {shown}{f' and {more} more reasons' if more > 0 else ''}"


def _words(reason: Reason) -> str:
    """Write a reason as commands do."""
    return reason.text().replace(": ", " ")
