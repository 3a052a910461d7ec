"""The plan of one campaign, drawn from a seed: changes of the cluster, crashes, and the quality of the network.

About ten nodes and thirty pods, with gangs, priorities and disruption budgets, within a minute of virtual time. Used by
``play``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

__all__ = ["SCHEDULER", "Act", "CampaignPlan", "Crash", "draw_plan", "node_json", "pod_json"]

SCHEDULER = "hostler-scheduler"
HORIZON_S = 60.0

Json = dict[str, Any]


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a user, a controller or a machine."""

    at_s: float
    what: str
    name: str = ""
    item: Json = {}
    amount: int = 0


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler process dies after this many of its requests, and another starts this much later."""

    after_requests: int
    pause_s: float


class CampaignPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign."""

    seed: int
    nodes: tuple[Json, ...]
    acts: tuple[Act, ...]
    crashes: tuple[Crash, ...]
    replicas: int
    severity: float  # 0: a perfect network … 1: a terrible one
    policy: str
    has_rival: bool  # another scheduler binds pods to the same nodes
    strict_budgets: bool
    releases_gangs: bool  # those that stay below their minimum are ended


def draw_plan(seed: int, severity: float | None = None) -> CampaignPlan:
    """Draw a campaign. The same seed gives the same one, except for an explicit severity."""
    rng = random.Random(seed)
    nodes = tuple(node_json(f"n{number}", rng) for number in range(rng.randint(3, 10)))
    has_rival = rng.random() < 0.2
    acts = sorted(_draw_acts(rng, nodes, has_rival), key=lambda act: act.at_s)
    crashes = tuple(
        Crash(after_requests=rng.randint(1, 160), pause_s=rng.choice([0.0, 0.5, 3.0, 20.0]))
        for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))
    )
    return CampaignPlan(
        seed=seed,
        nodes=nodes,
        acts=tuple(acts),
        crashes=crashes,
        replicas=rng.choice([1, 1, 1, 2, 3]),
        severity=rng.choice([0.0, 0.2, 0.5, 1.0]) if severity is None else severity,
        policy=rng.choice(["kubernetes", "kubernetes", "pack", "spread"]),
        has_rival=has_rival,
        strict_budgets=rng.random() < 0.3,
        releases_gangs=rng.random() < 0.5,
    )


def node_json(name: str, rng: random.Random) -> Json:
    """Make a node."""
    amounts = {"cpu": str(rng.choice([2, 4, 4, 8])), "memory": "16Gi", "pods": str(rng.choice([4, 10, 110]))}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{rng.randrange(3)}"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod_json(name: str, rng: random.Random, *, priority: int, group: str = "", scheduler: str = SCHEDULER) -> Json:
    """Make a pod."""
    cpu = rng.choice(["200m", "500m", "1", "1", "2", "3"])
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    labels = {"app": f"a{rng.randrange(3)}"}
    spec: Json = {
        "schedulerName": scheduler,
        "priority": priority,
        "containers": [container],
        "terminationGracePeriodSeconds": rng.choice([0, 1, 5, 30]),
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    draw = rng.random()
    if draw < 0.08:
        spec["schedulingGates"] = [{"name": "later"}]
    elif draw < 0.16:
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif draw < 0.22:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    elif draw < 0.27:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8000 + rng.randrange(2)}]
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _draw_acts(rng: random.Random, nodes: tuple[Json, ...], has_rival: bool) -> Iterator[Act]:
    names = [f"p{number}" for number in range(rng.randint(8, 22))]
    for name in names:
        scheduler = "rival" if has_rival and rng.random() < 0.2 else SCHEDULER
        pod = pod_json(name, rng, priority=rng.choice([0, 0, 0, 100, 1000]), scheduler=scheduler)
        yield Act(at_s=rng.choice([0.0, rng.uniform(0, 40)]), what="create", item=pod)
    groups = [f"g{number}" for number in range(rng.choice([0, 1, 1, 2, 3]))]
    for group in groups:
        yield from _draw_gang(rng, group)
    if rng.random() < 0.4:
        yield Act(at_s=rng.uniform(0, 20), what="create", item=_budget(rng))
    machines = [node["metadata"]["name"] for node in nodes]
    for _ in range(rng.randint(0, 12)):
        yield _draw_change(rng, names, groups, machines)


def _draw_gang(rng: random.Random, group: str) -> Iterator[Act]:
    size, at_s = rng.randint(2, 5), rng.uniform(0, 30)
    priority = rng.choice([0, 0, 100, 1000])
    wanted = rng.choice([size, size, max(1, size - 1), size + 1])
    item = {
        "kind": "PodGroup",
        "metadata": {"name": group},
        "spec": {"schedulingPolicy": {"gang": {"minCount": wanted}}, "priority": priority},
    }
    yield Act(at_s=max(0.0, at_s + rng.choice([-1.0, 0.0, 3.0])), what="create", item=item)
    for number in range(size):
        pod = pod_json(f"{group}-{number}", rng, priority=priority, group=group)
        pod["spec"].pop("schedulingGates", None)
        yield Act(at_s=at_s + rng.choice([0.0, 0.0, rng.uniform(0, 5)]), what="create", item=pod)


def _budget(rng: random.Random) -> Json:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": rng.randint(1, 4), "selector": {"matchLabels": {"app": "a0"}}},
        "status": {"disruptionsAllowed": 0, "expectedPods": 0, "currentHealthy": 0, "desiredHealthy": 0},
    }


def _draw_change(rng: random.Random, pods: list[str], groups: list[str], nodes: list[str]) -> Act:
    at_s = rng.uniform(1, HORIZON_S - 5)
    kinds: list[Callable[[], Act]] = [
        lambda: Act(at_s=at_s, what="delete_pod", name=rng.choice(pods)),
        lambda: Act(at_s=at_s, what="delete_pod", name=rng.choice(pods)),
        lambda: Act(at_s=at_s, what="recreate_pod", name=rng.choice(pods)),
        lambda: Act(at_s=at_s, what="finish_pod", name=rng.choice(pods)),
        lambda: Act(at_s=at_s, what="ungate", name=rng.choice(pods)),
        lambda: Act(at_s=at_s, what="cordon", name=rng.choice(nodes), amount=rng.randrange(2)),
        lambda: Act(at_s=at_s, what="remove_node", name=rng.choice(nodes)),
        lambda: Act(at_s=at_s, what="replace_node", name=rng.choice(nodes), item=node_json("x", rng)),
        lambda: Act(at_s=at_s, what="add_node", name=f"new{rng.randrange(100)}", item=node_json("x", rng)),
        lambda: Act(at_s=at_s, what="shrink_node", name=rng.choice(nodes), amount=rng.randint(1, 3)),
        lambda: Act(at_s=at_s, what="compact"),
        lambda: Act(at_s=at_s, what="outage", amount=rng.choice([2, 10, 45])),
    ]
    if groups:
        kinds.append(lambda: Act(at_s=at_s, what="resize_group", name=rng.choice(groups), amount=rng.randint(1, 5)))
        kinds.append(lambda: Act(at_s=at_s, what="delete_pod", name=f"{rng.choice(groups)}-{rng.randrange(3)}"))
    return rng.choice(kinds)()
