"""Log lines about decisions: where each VM was placed and by what, or why it has no host. ``Books`` writes them.

The leader describes a step right after the engine made it, because only then the records of the engine are those of
that step. It writes the lines once the transaction with the step is committed. So a decision that was not written has
no line, and replicas that only follow the log write none.

The number of lines is bounded for each kind of decision. What is beyond the bound is counted, and the count is logged
when its window is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hostler.control.books.decisions import StepOutcome
from hostler.control.vms.guests import vm_of_uid
from hostler.engine import Engine
from hostler.model import Bind, Defer, Evict, Guest
from hostler.telemetry.log import QUIET, Log

__all__ = ["NO_DECISION_LOG", "DecisionLine", "DecisionLog"]

_PLACED = "VM placed"
_NOT_PLACED = "VM not placed"
_EVICTED = "VM evicted"


class DecisionLine(NamedTuple):
    """One line: its message, and its fields in their order."""

    message: str
    fields: dict[str, object]


class DecisionLog:
    """Writes lines about decisions to a log, at most ``most`` of each kind in ten seconds; 0: none at all."""

    def __init__(self, log: Log, most: int) -> None:
        self._log = log
        self._most = most

    def describe(self, engine: Engine, outcome: StepOutcome) -> list[DecisionLine]:
        """Return the lines of the step that the engine just made. Runs on the engine's thread."""
        if not self._most:
            return []
        lines = [
            _describe(engine, action, outcome) for action in outcome.actions if isinstance(action, Bind | Defer | Evict)
        ]
        for uid, rejection in outcome.rejected.items():
            record = engine.view.records.get(uid)
            name: dict[str, object] = {} if record is None else {"vm": _name_of(record.guest)}
            lines.append(DecisionLine(_NOT_PLACED, {**name, "id": vm_of_uid(uid), "why": rejection.why}))
        return lines

    def write(self, lines: Iterable[DecisionLine]) -> None:
        """Write lines. What is beyond the bound is only counted."""
        for message, fields in lines:
            self._log.frequent_info(self._most, message, **fields)

    def report_omissions(self) -> None:
        """Log how many lines were left out, of windows that are over."""
        self._log.report_omissions()


NO_DECISION_LOG = DecisionLog(QUIET, 0)


def _describe(engine: Engine, action: Bind | Defer | Evict, outcome: StepOutcome) -> DecisionLine:
    guest = engine.view.guest(action.uid)
    who: dict[str, object] = {"vm": _name_of(guest), "id": vm_of_uid(action.uid)}
    if isinstance(action, Evict):
        return DecisionLine(_EVICTED, {**who, "host": action.host, "why": outcome.evictions.get(action.uid, "")})
    who["strategy"] = guest.spec.policy or engine.policies[0].name
    if isinstance(action, Defer):
        found = {"candidates": 0, "hosts": action.hosts, "attempt": action.attempt}
        return DecisionLine(_NOT_PLACED, {**who, **found, "why": outcome.reasons.get(action.uid, "")})
    decision = engine.decision(action.uid)
    score = {} if decision.total is None or not _has_scorers(engine, decision.policy) else {"score": decision.total}
    found = {"candidates": decision.feasible, "hosts": decision.hosts, "attempt": decision.attempt}
    return DecisionLine(_PLACED, {**who, "host": action.host, **score, **found})


def _name_of(guest: Guest) -> str:
    return f"{guest.spec.namespace}/{guest.name}"


def _has_scorers(engine: Engine, policy: str) -> bool:
    """Say whether a policy compares hosts by scores; others have only tie keys."""
    return any(one.name == policy and one.scorers for one in engine.policies)
