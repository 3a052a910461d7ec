"""Random pods: requests, identity, and the status of running ones."""

from __future__ import annotations

import random
from typing import Any

from tests.kube.oracle.constraints import node_affinity, node_selector, pod_terms, spread, toleration
from tests.kube.oracle.names import (
    APPS,
    HUGE,
    IMAGES,
    NAMESPACES,
    RUNTIME_CLASS,
    SCHEDULER,
    TIERS,
    TRACKS,
    WIDGET,
)

Body = dict[str, Any]
# Among pods of the same priority that started at the same time, or not yet, kube-scheduler's order is not defined: no
# two of those that may be evicted for one are alike.
LOW = (-10, 0, 0, 5, 5, 10)
HIGH = (1, 6, 11, 20, 100, 101)


def running_pod(draw: random.Random, name: str, node: str, nodes: list[str]) -> Body:
    """Make a pod that runs on a node; it may request more than the node has."""
    pod = _pod(draw, name, nodes, odds=0.08, size=draw.choice((1, 1, 2)))
    pod["spec"]["nodeName"] = node
    pod["spec"]["priority"] = draw.choice(LOW)
    return pod


def pending_pod(draw: random.Random, name: str, nodes: list[str], priority: int | None) -> Body:
    """Make a pod to schedule; without a priority it has the lowest and can evict no pod."""
    may_evict = priority is not None
    sizes = (2, 3, 3, 4) if may_evict else (1, 1, 2, 3)
    pod = _pod(draw, name, nodes, odds=0.12 if may_evict else 0.25, size=draw.choice(sizes))
    pod["spec"]["priority"] = priority if priority is not None else min(LOW)
    if draw.random() < (0.15 if may_evict else 0.5):
        pod["spec"]["preemptionPolicy"] = "Never"
    return pod


def running_status(draw: random.Random, pod: Body, hour: int) -> Body:
    """Make the status of a pod that started in this hour; some have ended, some are being resized."""
    if draw.random() < 0.05:
        return {"phase": draw.choice(("Succeeded", "Failed"))}
    status: Body = {"phase": "Running", "startTime": f"2026-01-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z"}
    if draw.random() < 0.12:
        status["containerStatuses"] = [_container_status(draw, one["name"]) for one in pod["spec"]["containers"]]
        reason = draw.choice(("", "Infeasible", "Deferred"))
        if reason:
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return status


def _container_status(draw: random.Random, name: str) -> Body:
    found: Body = {"name": name, "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
    has_allocated = draw.random() < 0.7
    if has_allocated:
        found["allocatedResources"] = {"cpu": f"{draw.randint(1, 8) * 100}m", "memory": f"{draw.randint(1, 8) * 100}Mi"}
    if draw.random() < 0.7 or not has_allocated:
        amounts = {"cpu": f"{draw.randint(1, 8) * 100}m", "memory": f"{draw.randint(1, 8) * 100}Mi"}
        found["resources"] = {"requests": amounts}
    return found


def _pod(draw: random.Random, name: str, nodes: list[str], *, odds: float, size: int) -> Body:
    labels = {"app": draw.choice(APPS)}
    if draw.random() < 0.6:
        labels["tier"] = draw.choice(TIERS)
    if draw.random() < 0.3:
        labels["track"] = draw.choice(TRACKS)
    namespace = draw.choice((NAMESPACES[0], NAMESPACES[0], *NAMESPACES))
    spec: Body = {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 0}
    _add_containers(draw, spec, size)
    if draw.random() < odds / 2:
        spec["nodeSelector"] = node_selector(draw)
    affinity: Body = {}
    if draw.random() < odds:
        affinity["nodeAffinity"] = node_affinity(draw, nodes)
    if draw.random() < odds:
        affinity["podAffinity"] = pod_terms(draw, hard=0.5)
    if draw.random() < odds:
        affinity["podAntiAffinity"] = pod_terms(draw, hard=0.6)
    if affinity:
        spec["affinity"] = affinity
    if draw.random() < odds * 1.3:
        spec["tolerations"] = [toleration(draw) for _ in range(draw.choice((1, 1, 2, 3)))]
    if draw.random() < odds * 1.3:
        spec["topologySpreadConstraints"] = spread(draw)
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


# -- what it asks for --------------------------------------------------------------------------------------------------


def _add_containers(draw: random.Random, spec: Body, size: int) -> None:
    spec["containers"] = [_container(draw, f"c{i}", size) for i in range(draw.choice((1, 1, 1, 2)))]
    if len(spec["containers"]) > 1:  # the API server refuses a pod that takes the same port twice
        spec["containers"][1].pop("ports", None)
    if draw.random() < 0.2:
        spec["initContainers"] = [_container(draw, f"i{i}", size) for i in range(draw.choice((1, 2, 3)))]
        for one in spec["initContainers"]:
            one.pop("ports", None)
            if draw.random() < 0.4:
                one["restartPolicy"] = "Always"
    if draw.random() < 0.03 and "ports" in spec["containers"][0]:
        spec["hostNetwork"] = True
    if draw.random() < 0.1:
        spec["runtimeClassName"] = RUNTIME_CLASS
    if draw.random() < 0.06:
        _add_pod_level(draw, spec, size)


def _container(draw: random.Random, name: str, size: int) -> Body:
    asks: Body = {}
    if draw.random() < 0.8:
        asks["cpu"] = f"{draw.choice((50, 100, 250, 500, 333)) * size}m"
    if draw.random() < 0.8:
        asks["memory"] = f"{draw.choice((64, 128, 500, 1000)) * size}Mi"
    if draw.random() < 0.1:
        asks["ephemeral-storage"] = f"{draw.randint(1, 4) * size}Gi"
    limits: Body = {}
    if draw.random() < 0.1:
        limits[WIDGET] = str(draw.randint(1, 2))
    if "memory" in asks and draw.random() < 0.05:
        limits[HUGE] = f"{draw.choice((2, 4, 16))}Mi"
    container: Body = {
        "name": name,
        "image": draw.choice((*IMAGES, "mirror.example/img-b:2", "unknown")),
        "resources": {"requests": asks},
    }
    if limits:
        container["resources"] = {"requests": asks | limits, "limits": limits}
    if draw.random() < 0.12:
        container["ports"] = [_port(draw)]
    return container


def _port(draw: random.Random) -> Body:
    number = draw.choice((8080, 8080, 9090))
    port: Body = {"containerPort": number, "hostPort": number, "protocol": draw.choice(("TCP", "TCP", "UDP"))}
    address = draw.choice(("", "", "0.0.0.0", "127.0.0.1", "10.0.0.7"))
    if address:
        port["hostIP"] = address
    return port


def _add_pod_level(draw: random.Random, spec: Body, size: int) -> None:
    """Let the whole pod request more than its containers together, as the API server requires."""
    spec["resources"] = {"requests": {"cpu": f"{4 * size + draw.randint(0, 2)}", "memory": f"{8 * size}Gi"}}
    if draw.random() < 0.5:
        del spec["resources"]["requests"]["memory"]
