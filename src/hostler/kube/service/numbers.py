"""The content of the engine's queue and the use of its hosts.

Counted on the engine's thread so that it is consistent. Used by ``pages``.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from hostler.engine import Engine
from hostler.engine.cache.reasons import NamedCounts
from hostler.engine.engine_view import GATHERING, PendingGuest
from hostler.engine.state.queue import QUEUE_NAMES, WAITING
from hostler.kube.api.resources import PODS
from hostler.kube.live.answers import member_messages
from hostler.manifests.scheduler_message import gang_message
from hostler.model import GUESTS

__all__ = ["Pending", "QueueNumbers", "count", "pending"]

UNSCHEDULABLE = "unschedulable"


class QueueNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of waiting guests by queue and by reason, and how full the nodes are."""

    active: int = 0
    backoff: int = 0
    unschedulable: int = 0
    gathering: int = 0  # members of gangs that are not complete
    refused_by: tuple[tuple[str, int], ...] = ()  # plugin, and how many waiting guests it rejects on some host
    waiting: tuple[str, ...] = ()  # their uids
    used: tuple[tuple[str, float], ...] = ()  # of each resource, the share of all nodes that pods request
    used_on_fullest: tuple[tuple[str, float], ...] = ()  # the same of one node


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """One waiting guest; times in nanoseconds since 1970, 0: not before something changes."""

    uid: str
    state: str
    attempts: int
    reason: str
    next_try: int = 0


def count(engine: Engine) -> QueueNumbers:
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
    use = engine.view.use_of_resources()
    return QueueNumbers(
        active=states["active"],
        backoff=states["backoff"],
        unschedulable=states[UNSCHEDULABLE],
        gathering=states[GATHERING],
        refused_by=tuple(sorted((plugin or "scheduler", number) for plugin, number in refused.items())),
        waiting=tuple(uids),
        used=tuple((_name_of(one.resource), one.share) for one in use),
        used_on_fullest=tuple((_name_of(one.resource), one.highest) for one in use),
    )


def pending(engine: Engine) -> list[Pending]:
    """Return the waiting guests in order of priority and age."""
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


def _name_of(resource: str) -> str:
    """Return a resource's name in Kubernetes."""
    return PODS.plural if resource == GUESTS else resource


def _entries(engine: Engine) -> list[PendingGuest]:
    """Return each pending guest, with the state name of those that fit nowhere."""
    return [
        one._replace(state=UNSCHEDULABLE) if one.state == QUEUE_NAMES[WAITING] else one
        for one in engine.view.pending_guests()
    ]


def _reason(engine: Engine, uid: str) -> str:
    decision = engine.decision(uid)
    return (gang_message(decision) if decision.hosts else "") or decision.note
