"""What the engine's queue holds, counted in the engine's thread so that nothing moves meanwhile. Used by ``pages``."""

from __future__ import annotations

from collections import Counter

import msgspec

from hostler.engine import Engine
from hostler.engine.engine_view import GATHERING, PendingGuest
from hostler.engine.queue import QUEUE_NAMES, WAITING
from hostler.engine.reasons import NamedCounts
from hostler.kube.live.waiting import member_messages
from hostler.manifests.messages import gang_message

__all__ = ["Numbers", "Pending", "count", "pending"]

UNSCHEDULABLE = "unschedulable"


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """How many guests wait where, what refuses them, and who they are."""

    active: int = 0
    backoff: int = 0
    unschedulable: int = 0
    gathering: int = 0  # members of gangs that are not complete
    refused_by: tuple[tuple[str, int], ...] = ()  # plugin, and how many waiting guests it keeps from some host
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
    states = Counter[str]()
    verdicts = Counter[NamedCounts]()  # guests of one shape share them
    uids: list[str] = []
    guests = engine.view.records
    for uid, state, _ in _entries(engine):
        states[state] += 1
        uids.append(uid)
        if state == UNSCHEDULABLE:
            verdicts[guests[uid].reasons] += 1
    refused = Counter[str]()
    for reasons, number in verdicts.items():
        for plugin in {reason.plugin for reason, _ in reasons}:
            refused[plugin] += number
    return Numbers(
        active=states["active"],
        backoff=states["backoff"],
        unschedulable=states[UNSCHEDULABLE],
        gathering=states[GATHERING],
        refused_by=tuple(sorted((plugin or "scheduler", number) for plugin, number in refused.items())),
        waiting=tuple(uids),
    )


def pending(engine: Engine) -> list[Pending]:
    """Return who waits, in order of priority and age."""
    records = engine.view.records
    found = sorted(_entries(engine), key=lambda one: (-records[one[0]].guest.spec.priority, records[one[0]].arrival))
    gangs = dict.fromkeys(records[uid].guest.gang for uid, _, _ in found)
    words = {uid: text for gang in gangs for uid, text in member_messages(engine, gang).items()}
    return [
        Pending(
            uid=uid,
            state=state,
            attempts=records[uid].attempts,
            reason=words.get(uid) or _reason(engine, uid),
            next_try=due,
        )
        for uid, state, due in found
    ]


def _entries(engine: Engine) -> list[PendingGuest]:
    """Return each pending guest, with our word for the state of those that fit nowhere."""
    return [
        one._replace(state=UNSCHEDULABLE) if one.state == QUEUE_NAMES[WAITING] else one
        for one in engine.view.pending_guests()
    ]


def _reason(engine: Engine, uid: str) -> str:
    decision = engine.decision(uid)
    return (gang_message(decision) if decision.hosts else "") or decision.note
