"""Small clusters and pods for tests of the extender, as model values and as Kubernetes objects."""

from __future__ import annotations

from typing import Any

from hostler.engine import BUILT_IN, Engine
from hostler.model import Device, DeviceRequest, GuestSpec, Host, HostJoined, amounts
from hostler.queries import with_mixes

GPU = "alibabacloud.com"


def engine_with(policy: str = "fgd", **gpus: int) -> Engine:
    """Return an engine with hosts that have this many GPUs."""
    (chosen,) = with_mixes([BUILT_IN[policy]])
    engine = Engine([chosen])
    for name, count in gpus.items():
        capacity = amounts({"cpu": 32_000, "memory": 2**36, "guests": 20})
        engine.apply(HostJoined(host=Host(name=name, capacity=capacity, devices=(Device("gpu", "T4"),) * count)))
    return engine


def sharing(milli: int, count: int = 1, cpu: int = 1000) -> GuestSpec:
    """Return the shape of a pod that requests GPUs."""
    return GuestSpec(requests=amounts({"cpu": cpu}), devices=(DeviceRequest("gpu", count, milli),))


def pod_json(name: str, *, milli: int = 0, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """Return a pod as kube-scheduler sends it."""
    annotations = {f"{GPU}/gpu-milli": str(milli), f"{GPU}/gpu-count": "1"} if milli else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec},
    }


def node_json(name: str, gpus: int = 0) -> dict[str, Any]:
    """Return a node as the API server has it."""
    resources = {"cpu": "32", "memory": "64Gi", "pods": "20"}
    if gpus:
        resources |= {f"{GPU}/gpu-count": str(gpus), f"{GPU}/gpu-milli": str(1000 * gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": resources, "allocatable": resources},
    }
