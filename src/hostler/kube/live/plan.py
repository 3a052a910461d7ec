"""Where pods that do not exist yet would go, which pods would be evicted for them, and why some would not fit.

The engine decides on a twin: everything pending is decided in the scheduler's own order, with the planned pods among
it. Victims leave at once, and extenders are not called. Used by ``hostler kube plan`` and by the service.
"""

from __future__ import annotations

import msgspec

from hostler.engine import Engine
from hostler.errors import InputError
from hostler.kube.api.store import ObjectUpdate
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.live.answers import waiting_messages
from hostler.kube.live.planned_objects import PREFIX, PlannedObjects
from hostler.kube.live.snapshot import apply_all
from hostler.model import PolicyChanged
from hostler.queries import BudgetCount, TriedEviction, try_to_the_end, with_preemption

__all__ = ["PlannedEviction", "PlannedPod", "PodPlan", "make_plan"]


class PlannedPod(msgspec.Struct, frozen=True, kw_only=True):
    """Where one pod would go, or why it fits nowhere, in kube-scheduler's words."""

    namespace: str
    name: str
    node: str = ""
    devices: tuple[int, ...] = ()
    feasible: int = 0
    nodes: int = 0
    reason: str = ""


class PlannedEviction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that would be evicted, and for which pod."""

    namespace: str
    name: str
    node: str
    preemptor: str
    reason: str
    broken_budgets: tuple[str, ...] = ()  # budgets that allow no more evictions

    @property
    def why(self) -> str:
        """Return the reason, with the budgets that it breaks."""
        return "; ".join((self.reason, *(f"breaks budget {name}" for name in self.broken_budgets)))


class PodPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen if some pods were created now."""

    pods: tuple[PlannedPod, ...]
    evicted: tuple[PlannedEviction, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Return whether all of them would be placed."""
        return all(pod.node for pod in self.pods)


def make_plan(
    cluster: WatchedCluster, engine: Engine, planned: PlannedObjects, now: int, *, may_evict: bool = True
) -> PodPlan:
    """Add planned pods to a cluster and decide. Cluster and engine are modified: pass twins."""
    for resource, key, _ in planned.objects:
        if resource.kind == "Pod" and any((pod.namespace, pod.name) == key for pod in cluster.pods.values()):
            raise InputError(f"pod {'/'.join(key)} exists already", hint="'hostler explain' shows why it is there")
    if not may_evict:
        engine.apply(PolicyChanged(policies=with_preemption(engine.policies, is_on=False)))
    refused = []
    for resource, key, item in planned.objects:
        refused += apply_all(engine, cluster.take(resource, [ObjectUpdate(key, None, item)], now))
    later = now + 2_000_000_000  # annotated groups are complete after a quiet period
    refused += apply_all(engine, cluster.tick(later))
    budgets = BudgetCount(engine.view.budgets.values())
    outcome = try_to_the_end(engine, later)
    messages = waiting_messages(engine, planned.uids)
    pods = tuple(_planned_pod(cluster, engine, uid, messages.get(uid, "")) for uid in planned.uids)
    evicted = tuple(_eviction(cluster, one, budgets) for one in outcome.evictions)
    return PodPlan(pods=pods, evicted=evicted, notes=(*planned.notes, *dict.fromkeys(refused)))


def _planned_pod(cluster: WatchedCluster, engine: Engine, uid: str, why: str) -> PlannedPod:
    space, _, name = uid.removeprefix(PREFIX).partition("/")
    if uid not in engine.view.records:
        pod = cluster.pods.get(uid)
        problem = pod.problem if pod is not None else ""
        return PlannedPod(namespace=space, name=name, reason=problem or "it cannot be read")
    decision = engine.decision(uid)
    return PlannedPod(
        namespace=space,
        name=name,
        node=decision.host,
        devices=decision.devices,
        feasible=decision.feasible,
        nodes=decision.hosts,
        reason=why,
    )


def _eviction(cluster: WatchedCluster, eviction: TriedEviction, budgets: BudgetCount) -> PlannedEviction:
    action = eviction.action
    pod = cluster.pods.get(action.uid)
    preemptor = cluster.pods.get(action.preemptor)
    return PlannedEviction(
        namespace=pod.namespace if pod is not None else "",
        name=pod.name if pod is not None else action.guest,
        node=action.host,
        preemptor=f"{preemptor.namespace}/{preemptor.name}" if preemptor is not None else action.preemptor,
        reason=action.reason,
        broken_budgets=tuple(one.key for one in budgets.charge(eviction.guest)),
    )
