"""Answers about pods, the same from a command and from the service of a running scheduler.

They say why pods wait, in the same words as the conditions and events that the scheduler writes, and show candidates
and queues as plain data.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.engine import Engine
from hostler.kube.facts.views import PodView, scheduler_of
from hostler.kube.scheduler.messages import gathering_text, hold_messages
from hostler.kube.settings import SchedulerSettings
from hostler.manifests import Pod
from hostler.manifests.scheduler_message import gang_message, scheduler_message
from hostler.model import Defer, Explanation, Guest, GuestSpec, HostVerdict
from hostler.model.plain_data import without_minus_zero

__all__ = [
    "candidates_as_data",
    "member_message",
    "member_messages",
    "not_offered",
    "notes_on",
    "queue_row",
    "waiting_message",
    "waiting_messages",
]

BEING_DELETED = "the pod is being deleted; it holds its room until it ends"
_SECOND = 1_000_000_000


def member_messages(engine: Engine, gang: str) -> dict[str, str]:
    """Return why each pending member of a gang waits, by uid."""
    gangs = engine.view.gangs
    waiting = gangs.pending(gang) if gang else []
    why = gangs.why_not_ready(gang) if waiting else None
    if why is not None:
        return dict.fromkeys(waiting, gathering_text(why))
    decisions = sorted((engine.decision(uid) for uid in waiting), key=lambda one: one.seq)
    holds = [Defer(one.uid, one.guest, one.seq, one.hosts, one.reasons, one.attempt) for one in decisions if one.seq]
    return hold_messages(engine, holds)


def member_message(engine: Engine, guest: Guest) -> str:
    """Return why a member of a gang waits; empty if it does not wait or is in no gang."""
    return member_messages(engine, guest.gang).get(guest.uid, "")


def waiting_message(engine: Engine, uid: str, explanation: Explanation) -> str:
    """Return why a pod waits, given its explanation; empty if it is placed or was never tried."""
    if explanation.decision.host:
        return ""
    guest = engine.view.guest(uid)
    own = scheduler_message(explanation, guest.spec) or gang_message(explanation.decision)
    return member_messages(engine, guest.gang).get(uid) or own


def waiting_messages(engine: Engine, uids: Iterable[str]) -> dict[str, str]:
    """Return for many pods why each waits; placed ones are left out."""
    found: dict[str, str] = {}
    for uid in uids:
        record = engine.view.records.get(uid)
        if record is None or record.host or uid in found:
            continue
        found |= member_messages(engine, record.guest.gang)
        if uid not in found:
            found[uid] = waiting_message(engine, uid, engine.explain(uid))
    return found


def not_offered(engine: Engine, spec: GuestSpec) -> list[str]:
    """Return the names of requested resources that no node has, free or taken."""
    wanted = dict.fromkeys([name for name, amount in spec.requests if amount] + [one.kind for one in spec.devices])
    offered: set[str] = set()
    for host in engine.hosts():
        offered |= {name for name, amount in host.capacity if amount} | {device.kind for device in host.devices}
    return [f"no node offers {name}" for name in wanted if name not in offered]


def candidates_as_data(explanation: Explanation, namespace: str) -> dict[str, object]:
    """Return the nodes that would take a pod, best first, and the others with all reasons."""
    verdicts = [without_minus_zero(verdict) for verdict in explanation.verdicts]
    return {
        "pod": explanation.decision.guest,
        "namespace": namespace,
        "uid": explanation.decision.uid,
        "feasible": [_candidate(verdict) for verdict in verdicts if verdict.fits],
        "refused": [msgspec.to_builtins(verdict) for verdict in verdicts if not verdict.fits],
        "gang": msgspec.to_builtins(explanation.gang),
    }


def notes_on(pod: Pod, settings: SchedulerSettings) -> list[str]:
    """Return notes about a pod whose explanation makes assumptions, and other remarks."""
    if pod.spec.node_name:
        return [BEING_DELETED] if pod.metadata.deletion_timestamp is not None else []
    notes = []
    ours, name = [profile.scheduler_name for profile in settings.profiles], scheduler_of(pod)
    if name not in ours:
        notes.append(f"the pod names scheduler {name}; it is explained as if it named {ours[0]}")
    if pod.spec.scheduling_gates:
        gates = ", ".join(str(gate.get("name", "?")) for gate in pod.spec.scheduling_gates)
        notes.append(f"the pod has scheduling gates ({gates}); it is explained as if they were removed")
    return notes


def queue_row(
    pod: PodView, now: int, state: str, reason: str, *, next_try: str | None = None, attempts: int | None = None
) -> dict[str, object]:
    """Return one waiting pod; its reason is the condition that the scheduler wrote, if there is one yet."""
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "scheduler": pod.scheduler_name,
        "priority": pod.priority,
        "state": state,
        "age_s": round((now - pod.created) / _SECOND) if pod.created else None,
        "attempts": attempts,
        "reason": pod.condition[1] or reason,
        "next_try": next_try,
        "nominated": pod.nominated or None,
    }


def _candidate(verdict: HostVerdict) -> dict[str, object]:
    return {
        "host": verdict.host,
        "total": verdict.total,
        "scores": {score.plugin: score.weighted for score in verdict.scores},
    }
