"""Answers about pods as plain data, the same from a command and from the service of a running scheduler."""

from __future__ import annotations

import msgspec

from hostler.kube.facts.views import PodView, scheduler_of
from hostler.kube.settings import SchedulerSettings
from hostler.manifests import Pod
from hostler.model import Explanation, HostVerdict
from hostler.model.plain_data import without_minus_zero

__all__ = ["candidates_as_data", "notes_on", "queue_row"]

BEING_DELETED = "the pod is being deleted; it holds its room until it ends"
_SECOND = 1_000_000_000


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
