"""What can be said about guests that wait at the end of a run, beyond the engine's reasons. Used by ``placement``.

Guests of one shape get the same answer, so each shape is looked at once, and of very many shapes only the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostler.cli.wording import plural
from hostler.engine import Engine
from hostler.engine.eviction_advice import BY_BUDGET
from hostler.engine.reservations import RESERVATION
from hostler.model import Decision, Explanation, GuestSpec, Policy, PolicyChanged

__all__ = ["noted", "would_evict"]

MOST_HOSTS = 50_000  # looked at, over all shapes; each takes about 50 µs
NO_EVICTION = "no eviction helps"  # what the engine says


def noted(engine: Engine, decisions: Mapping[str, Decision]) -> dict[str, Decision]:
    """Add to decisions about waiting guests what they do not say: a reservation or a budget that is in the way."""
    policies = engine.policies
    strict = {one.name for one in policies if one.preemption is not None and one.preemption.budgets == "strict"}
    waiting = {
        uid: decision
        for uid, decision in decisions.items()
        if not decision.host
        and uid in engine.view.records
        and decision.reasons
        and (engine.view.reservations or (decision.note == NO_EVICTION and decision.policy in strict))
    }
    notes: dict[tuple[GuestSpec, str], str] = {}
    for key, uid in _shapes(engine, waiting):
        notes[key] = _note(engine.explain(uid), waiting[uid].note)
    found = {}
    for uid, decision in waiting.items():
        note = notes.get((engine.view.guest(uid).spec, decision.note), "")
        if note:
            found[uid] = msgspec.structs.replace(decision, note=note)
    return found


def would_evict(engine: Engine, policies: Sequence[Policy], decisions: Mapping[str, Decision]) -> bool:
    """Say whether somebody would be evicted for a guest that waits, if the policies were these."""
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


def _shapes(engine: Engine, waiting: Mapping[str, Decision]) -> Iterator[tuple[tuple[GuestSpec, str], str]]:
    """Return one guest of each shape and note, as many as there is time for."""
    first: dict[tuple[GuestSpec, str], str] = {}
    most = max(MOST_HOSTS // max(engine.view.host_count, 1), 1)
    for uid, decision in waiting.items():
        guest = engine.view.guest(uid)
        first.setdefault((guest.spec, decision.note), uid)
        if len(first) >= most:
            break
    yield from first.items()


def _note(explanation: Explanation, note: str) -> str:
    holders: dict[str, int] = {}
    for verdict in explanation.verdicts:
        names = {name for failure in verdict.failures for name in failure.by if name.startswith(RESERVATION)}
        for name in names:
            holders[name] = holders.get(name, 0) + 1
    held = [
        f"reservation {name.removeprefix(RESERVATION)} holds room on {plural(n, 'host')}" for name, n in holders.items()
    ]
    if note == NO_EVICTION and explanation.eviction is not None and BY_BUDGET in explanation.eviction.why_not:
        note = f"{NO_EVICTION}: {BY_BUDGET}"
    return "; ".join(([note] if note else []) + held)


def _priority(engine: Engine, uid: str) -> int:
    guest = engine.view.guest(uid)
    return engine.view.gangs.priority(guest.gang) if guest.gang else guest.spec.priority
