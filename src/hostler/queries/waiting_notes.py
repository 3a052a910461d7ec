"""Notes about guests that wait at the end of a run, beyond the engine's reasons.

Guests of one shape get the same notes, so each shape is explained once; if there are very many shapes, only the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hostler.engine import Engine
from hostler.engine.state.reservations import RESERVATION
from hostler.model import Decision, DecisionNote, Explanation, GuestSpec, Policy, PolicyChanged
from hostler.model.notes import (
    BY_BUDGET,
    HELD_BY_RESERVATION,
    NO_EVICTION_HELPS,
    NO_EVICTION_IN_BUDGET,
    find_note,
)
from hostler.model.vocabulary import with_notes

__all__ = ["add_notes", "would_evict"]

_Shape = tuple[GuestSpec, tuple[DecisionNote, ...]]
MOST_HOSTS = 50_000  # looked at, over all shapes; each takes about 50 µs


def add_notes(engine: Engine, decisions: Mapping[str, Decision]) -> dict[str, Decision]:
    """Add notes to decisions about waiting guests: reservations and budgets that block them."""
    policies = engine.policies
    strict = {one.name for one in policies if one.preemption is not None and one.preemption.budgets == "strict"}
    waiting = {
        uid: decision
        for uid, decision in decisions.items()
        if not decision.host
        and uid in engine.view.records
        and decision.reasons
        and (engine.view.reservations or (find_note(decision.notes, NO_EVICTION_HELPS) and decision.policy in strict))
    }
    notes = {key: _notes(engine.explain(uid), waiting[uid].notes) for key, uid in _shapes(engine, waiting)}
    found = {}
    for uid, decision in waiting.items():
        shown = notes.get((engine.view.guest(uid).spec, decision.notes), ())
        if shown:
            found[uid] = with_notes(decision, shown)
    return found


def would_evict(engine: Engine, policies: Sequence[Policy], decisions: Mapping[str, Decision]) -> bool:
    """Say whether any guest would be evicted for a waiting guest under these policies."""
    records = engine.view.records
    waiting = {uid: one for uid, one in decisions.items() if not one.host and uid in records}
    reclaims = any(policy.reclaim for policy in policies) and bool(engine.view.quotas.by_tenant)
    lowest = min((record.guest.spec.priority for uid, record in records.items() if uid not in waiting), default=0)
    if not reclaims:  # mostly all are of one priority, and that is quickly seen
        waiting = {uid: one for uid, one in waiting.items() if _priority(engine, uid) > lowest}
    if not waiting:
        return False
    trial = engine.fork()
    trial.apply(PolicyChanged(policies=tuple(policies)))
    return trial.would_evict(uid for _, uid in _shapes(trial, waiting))


def _shapes(engine: Engine, waiting: Mapping[str, Decision]) -> Iterator[tuple[_Shape, str]]:
    """Return one guest of each shape and its notes, as far as the time limit allows."""
    first: dict[_Shape, str] = {}
    most = max(MOST_HOSTS // max(engine.view.host_count, 1), 1)
    for uid, decision in waiting.items():
        guest = engine.view.guest(uid)
        first.setdefault((guest.spec, decision.notes), uid)
        if len(first) >= most:
            break
    yield from first.items()


def _notes(explanation: Explanation, notes: Sequence[DecisionNote]) -> tuple[DecisionNote, ...]:
    holders: dict[str, int] = {}
    for verdict in explanation.verdicts:
        names = {name for failure in verdict.failures for name in failure.by if name.startswith(RESERVATION)}
        for name in names:
            holders[name] = holders.get(name, 0) + 1
    held = [DecisionNote(HELD_BY_RESERVATION, name.removeprefix(RESERVATION), n) for name, n in holders.items()]
    obstacles = explanation.eviction.obstacles if explanation.eviction is not None else ()
    if any(one.code == BY_BUDGET for one in obstacles):
        in_budget = DecisionNote(NO_EVICTION_IN_BUDGET)
        notes = [in_budget if note.code == NO_EVICTION_HELPS else note for note in notes]
    return (*notes, *held)


def _priority(engine: Engine, uid: str) -> int:
    guest = engine.view.guest(uid)
    return engine.view.gangs.priority(guest.gang) if guest.gang else guest.spec.priority
