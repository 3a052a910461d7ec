"""What the engine's queue holds, counted in the engine's thread so that nothing moves meanwhile. Used by ``pages``."""

from __future__ import annotations

from collections import Counter

import msgspec

from hostler.engine import Engine
from hostler.engine.gang_book import GANG
from hostler.engine.queue import QUEUE_NAMES, WAITING

__all__ = ["Numbers", "Pending", "count", "pending"]

UNSCHEDULABLE = "unschedulable"


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """How many guests wait where, what refuses them, and who they are."""

    active: int = 0
    backoff: int = 0
    unschedulable: int = 0
    gathering: int = 0  # members of gangs that are not complete
    refused_by: tuple[tuple[str, int], ...] = ()  # plugin, and how many waiting guests it keeps from some host
    assumed: int = 0
    waiting: tuple[str, ...] = ()  # their uids


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """One guest that waits; times in nanoseconds since 1970, 0: not before something happens."""

    uid: str
    state: str
    attempts: int
    reason: str
    next_try: int = 0


def count(engine: Engine) -> Numbers:
    """Count the queue."""
    counts = Counter[str]()
    refused = Counter[str]()
    uids: list[str] = []
    for uid, state, _ in _entries(engine):
        counts[state] += 1
        uids.append(uid)
        record = engine.state.guests[uid]
        if state == UNSCHEDULABLE:
            reasons = engine.state.tables.reasons.values
            refused.update({reasons[code].plugin: 1 for code, _ in record.counts})
    return Numbers(
        active=counts["active"],
        backoff=counts["backoff"],
        unschedulable=counts[UNSCHEDULABLE],
        gathering=counts["gated"],
        refused_by=tuple(sorted((plugin or "scheduler", number) for plugin, number in refused.items())),
        waiting=tuple(uids),
    )


def pending(engine: Engine, limit: int) -> list[Pending]:
    """Return who waits, in order of priority and age."""
    records = engine.state.guests
    found = sorted(_entries(engine), key=lambda one: (-records[one[0]].guest.spec.priority, records[one[0]].arrival))
    return [
        Pending(
            uid=uid,
            state=state,
            attempts=records[uid].attempts,
            reason=_reason(engine, uid),
            next_try=due,
        )
        for uid, state, due in found[:limit]
    ]


def _entries(engine: Engine) -> list[tuple[str, str, int]]:
    """Return each pending guest once, with the name of its state and when it is tried at the latest."""
    found: list[tuple[str, str, int]] = []
    gangs = engine.state.gangs
    for key, entry in engine.state.queue.entries.items():
        state = UNSCHEDULABLE if entry.state == WAITING else QUEUE_NAMES[entry.state]
        due = entry.flush_at if entry.state == WAITING else entry.until
        members = gangs.pending(key.removeprefix(GANG)) if key.startswith(GANG) else (key,)
        found += [(uid, state, due) for uid in members if uid in engine.state.guests]
    known = {uid for uid, _, _ in found}
    for record in engine.state.guests.values():
        guest = record.guest
        if not record.host and guest.uid not in known:
            name = engine.state_of(record)
            found.append((guest.uid, "gated" if name == "gated" else name, record.deadline))
    return found


def _reason(engine: Engine, uid: str) -> str:
    from hostler.manifests.messages import gang_message

    decision = engine.decision(uid)
    return (gang_message(decision) if decision.hosts else "") or decision.note
