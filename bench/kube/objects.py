"""Nodes and pods like those of kubernetes/kubernetes test/integration/scheduler_perf: 4 CPU and 32 Gi; 100 m."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MIXES", "Json", "Mix", "affinity_pod", "node", "plain_pod", "pod_group"]

import msgspec

Json = dict[str, object]
NAMESPACE = "bench"
ZONES = 10
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def node(number: int, cpu: str = "4") -> Json:
    """Return one node."""
    name = f"node-{number}"
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: f"zone-{number % ZONES}"}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Bench"}],
        },
    }


def plain_pod(number: int, scheduler: str, **spec: object) -> Json:
    """Return one small pod."""
    cpu = spec.pop("cpu", "100m")
    labels = spec.pop("labels", {"app": "bench"})
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "500Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "schedulerName": scheduler,
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }


def affinity_pod(number: int, scheduler: str) -> Json:
    """Return a pod that must run in one of two zones."""
    expression = {"key": ZONE, "operator": "In", "values": ["zone-1", "zone-2"]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": term}
    return plain_pod(number, scheduler, affinity={"nodeAffinity": required})


def _spread(number: int, scheduler: str) -> Json:
    rule = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return plain_pod(number, scheduler, labels={"app": "spread"}, topologySpreadConstraints=[rule])


def _near(number: int, scheduler: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": "near"}}, "topologyKey": ZONE}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return plain_pod(number, scheduler, labels={"app": "near"}, affinity={"podAffinity": required})


def _apart(number: int, scheduler: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": f"apart-{number % 20}"}}, "topologyKey": HOSTNAME}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return plain_pod(number, scheduler, labels={"app": f"apart-{number % 20}"}, affinity={"podAntiAffinity": required})


def pod_group(number: int, size: int) -> Json:
    """Return a group that runs together or not at all."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": f"group-{number}", "namespace": NAMESPACE},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
    }


GANG_SIZE = 10


def _member(number: int, scheduler: str) -> Json:
    return plain_pod(number, scheduler, schedulingGroup={"podGroupName": f"group-{number // GANG_SIZE}"})


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """One of scheduler_perf's workloads. ``before`` are pods that run or wait when it begins."""

    name: str
    what: str
    make: Callable[[int, str], Json]
    nodes: int
    pods: int
    running: int = 0  # pods of low priority that fill the nodes
    hopeless: int = 0  # pods that never fit
    is_gang: bool = False
    has_churn: bool = False


MIXES = (
    Mix(name="node affinity", what="pods for two zones of ten", make=affinity_pod, nodes=1000, pods=2000),
    Mix(name="spread", what="hard spread over ten zones", make=_spread, nodes=1000, pods=2000),
    Mix(name="pod affinity", what="all pods in one zone", make=_near, nodes=1000, pods=1000),
    Mix(name="pod anti-affinity", what="20 apps, one pod a node each", make=_apart, nodes=1000, pods=2000),
    Mix(
        name="preemption",
        what="every node full of pods of low priority; each pod needs one of them gone",
        make=lambda number, scheduler: plain_pod(number, scheduler, cpu="3", priority=1000),
        nodes=500,
        pods=500,
        running=2000,
    ),
    Mix(
        name="churn",
        what="plain pods while nodes, services and pods come and go",
        make=lambda number, scheduler: plain_pod(number, scheduler),
        nodes=1000,
        pods=2000,
        has_churn=True,
    ),
    Mix(
        name="backlog",
        what="plain pods beside 2,000 of higher priority that fit nowhere",
        make=lambda number, scheduler: plain_pod(number, scheduler),
        nodes=1000,
        pods=2000,
        hopeless=2000,
    ),
    Mix(name="gangs", what="gangs of ten", make=_member, nodes=1000, pods=2000, is_gang=True),
)
