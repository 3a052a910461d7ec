"""Random clusters, each from a seed: nodes, running pods, budgets and services, and a few pods to schedule."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from tests.kube.oracle.constraints import label_selector
from tests.kube.oracle.names import (
    APPS,
    DISK,
    HOSTNAME,
    HUGE,
    IMAGES,
    NAMESPACES,
    RACK,
    RACKS,
    SIZE,
    WIDGET,
    ZONE,
    ZONES,
)
from tests.kube.oracle.pods import HIGH, pending_pod, running_pod, running_status

__all__ = ["Case", "make_case"]

Body = dict[str, Any]


class Case(msgspec.Struct):
    """A cluster, and the pods to schedule one after the other. ``leaving`` names running pods that are being deleted.

    In a slow case no victim ends while the case lasts, so its preemptor waits for it.

    Statuses are kept apart, because the API server accepts them only separately: by ``namespace/name``.
    """

    seed: int
    nodes: list[Body] = []
    running: list[Body] = []
    pending: list[Body] = []
    owners: list[Body] = []  # services and controllers
    budgets: list[Body] = []
    statuses: dict[str, Body] = {}
    leaving: list[str] = []
    is_slow: bool = False


def make_case(seed: int) -> Case:
    """Make the case of a seed; the same seed gives the same case."""
    draw = random.Random(seed)
    may_evict = draw.random() < 0.4
    case = Case(seed, is_slow=may_evict and draw.random() < 0.3)
    case.nodes = [
        _node(draw, f"n{i}-{seed}", may_evict=may_evict)
        for i in range(draw.randint(3, 7) if may_evict else draw.randint(3, 12))
    ]
    names = [node["metadata"]["name"] for node in case.nodes]
    count = draw.randint(8, 30) if may_evict else draw.randint(0, 20)
    for i, hour in enumerate(draw.sample(range(count), count)):
        pod = running_pod(draw, f"r{i}-{seed}", draw.choice(names), names)
        case.running.append(pod)
        if case.is_slow:
            pod["spec"]["terminationGracePeriodSeconds"] = 300
        if (may_evict and hour) or draw.random() < 0.1:  # one has not started yet
            case.statuses[place_of(pod)] = running_status(draw, pod, hour)
        if not may_evict and draw.random() < 0.06:
            case.leaving.append(place_of(pod))
            pod["spec"]["terminationGracePeriodSeconds"] = 300
    priorities = draw.sample(HIGH, 3) if may_evict else [None] * 3
    case.pending = [pending_pod(draw, f"p{i}-{seed}", names, priorities[i]) for i in range(draw.choice((1, 2, 2, 3)))]
    if may_evict and draw.random() < 0.5:
        case.budgets = [_budget(draw, f"b{i}-{seed}") for i in range(draw.choice((1, 1, 2, 3)))]
        case.statuses |= {place_of(one): _budget_status(draw, one, case) for one in case.budgets}
    if draw.random() < 0.35:
        _add_owners(draw, case)
    return case


def place_of(body: Body) -> str:
    """Return namespace and name of an object in one word."""
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _node(draw: random.Random, name: str, *, may_evict: bool) -> Body:
    labels = {HOSTNAME: name} if draw.random() < 0.95 else {}
    for key, values, odds in ((ZONE, ZONES, 0.9), (RACK, RACKS, 0.8), (DISK, ("ssd", "hdd"), 0.8)):
        if draw.random() < odds:
            labels[key] = draw.choice(values)
    if draw.random() < 0.6:
        labels[SIZE] = draw.choice(("1", "2", "3", "4", "x"))
    amounts = {
        "cpu": draw.choice(("1500m", "2", "3")) if may_evict else draw.choice(("1", "2", "4", "7500m")),
        "memory": draw.choice(("2Gi", "4Gi", "8000Mi", "16Gi")),
        "pods": str(draw.choice((3, 5, 20, 110))),
    }
    if draw.random() < 0.04:
        amounts[draw.choice(("cpu", "memory", "pods"))] = "0"
    if draw.random() < 0.6:
        amounts["ephemeral-storage"] = f"{draw.randint(4, 40)}Gi"
    if draw.random() < 0.4:
        amounts[WIDGET] = str(draw.randint(1, 4))
    if draw.random() < 0.2:
        amounts[HUGE] = "32Mi"
    spec: Body = {}
    taints = {(t["key"], t["effect"]): t for t in (_taint(draw) for _ in range(draw.choice((0, 0, 0, 0, 1, 2))))}
    if taints:
        spec["taints"] = list(taints.values())
    if draw.random() < 0.06:
        spec["unschedulable"] = True
    images = [
        {"names": _image_names(draw, image), "sizeBytes": size} for image, size in IMAGES.items() if draw.random() < 0.3
    ]
    status = {"capacity": amounts, "allocatable": amounts, "images": images}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def _image_names(draw: random.Random, image: str) -> list[str]:
    name = image if ":" in image else f"{image}:latest"
    return [name, f"mirror.example/{name}"] if draw.random() < 0.3 else [name]


def _taint(draw: random.Random) -> Body:
    effect = draw.choice(("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule", "PreferNoSchedule"))
    return {"key": draw.choice(("dedicated", "spot")), "value": draw.choice(("a", "b", "")), "effect": effect}


def _budget(draw: random.Random, name: str) -> Body:
    spec: Body = {"minAvailable": 1}
    if draw.random() < 0.95:
        spec["selector"] = label_selector(draw)
    return {"metadata": {"name": name, "namespace": draw.choice((NAMESPACES[0], *NAMESPACES))}, "spec": spec}


def _budget_status(draw: random.Random, budget: Body, case: Case) -> Body:
    status: Body = {"disruptionsAllowed": draw.choice((0, 0, 1, 2))}
    if draw.random() < 0.2:
        names = [pod["metadata"]["name"] for pod in draw.sample(case.running, 3)]
        status["disruptedPods"] = dict.fromkeys(names, "2026-01-01T00:00:00Z")
    return status


def _add_owners(draw: random.Random, case: Case) -> None:
    """Add services and controllers, whose pods are spread by default."""
    for i in range(draw.choice((1, 1, 2))):
        namespace, labels = draw.choice((NAMESPACES[0], *NAMESPACES)), {"app": draw.choice(APPS)}
        kind = draw.choice(("Service", "Service", "ReplicaSet", "StatefulSet", "ReplicationController"))
        metadata = {"name": f"o{i}-{case.seed}", "namespace": namespace}
        case.owners.append({"kind": kind, "metadata": metadata, "spec": _owner_spec(kind, labels)})
        if kind == "Service":
            continue
        version = "v1" if kind == "ReplicationController" else "apps/v1"
        owner = {"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": "u", "controller": True}
        for pod in (*case.running, *case.pending):
            own = pod["metadata"]
            if own["namespace"] == namespace and labels.items() <= own["labels"].items() and draw.random() < 0.8:
                own["ownerReferences"] = [owner]


def _owner_spec(kind: str, labels: dict[str, str]) -> Body:
    if kind == "Service":
        return {"selector": labels, "ports": [{"port": 80}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "img-a"}]}}
    selector: Body = labels if kind == "ReplicationController" else {"matchLabels": labels}
    return {"replicas": 0, "selector": selector, "template": template}
