"""Nodes without machines: Ready from the start, with addresses and zones; kwok may simulate them."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from hostler.errors import UnavailableError
from hostler.kube.local.setup import Api

__all__ = ["create_nodes", "node_manifest", "wait_until_usable"]

_AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_ZONES = 3
_ADDRESSES = ipaddress.ip_network("10.64.0.0/12")
_WORKERS = 8
_PATH = "/api/v1/nodes"
# type of condition: whether a healthy node has it, and the reason that a kubelet gives
_CONDITIONS = {
    "Ready": ("True", "KubeletReady"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
}


def node_manifest(number: int) -> dict[str, Any]:
    """Return the Node with this number."""
    name = f"node-{number}"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251 - what a kubelet would write
    conditions = [
        {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, (status, reason) in _CONDITIONS.items()
    ]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": f"zone-{number % _ZONES}",
    }
    addresses = [
        {"type": "InternalIP", "address": str(_ADDRESSES[number + 1])},
        {"type": "Hostname", "address": name},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": _AMOUNTS, "allocatable": _AMOUNTS, "conditions": conditions, "addresses": addresses},
    }


def create_nodes(connect: Callable[[], Api], count: int) -> int:
    """Create the missing ones of ``node-0`` and so on; return how many were created."""

    def share(first: int) -> int:
        with connect() as api:
            return sum(api.create(_PATH, node_manifest(number)) for number in range(first, count, _WORKERS))

    with ThreadPoolExecutor(_WORKERS) as pool:
        return sum(pool.map(share, range(min(_WORKERS, count))))


def wait_until_usable(api: Api, count: int, patience_s: float) -> int:
    """Wait until pods could run on our nodes: Ready and without blocking taints; return the number of nodes."""
    deadline = time.monotonic() + patience_s
    names = {f"node-{number}" for number in range(count)}
    while True:
        nodes = {node["metadata"]["name"]: node for node in api.call("GET", _PATH)["items"]}
        waiting = [name for name in sorted(names) if not _is_usable(nodes.get(name, {}))]
        if not waiting:
            return len(nodes)
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"{len(waiting)} of {count} nodes are not Ready after {patience_s:.0f} s, {waiting[0]} for one",
                hint="see 'hostler kube logs controllers' and 'hostler kube logs kwok'",
            )
        time.sleep(max(0.1, count / 5000))


def _is_usable(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints", ())}
    return is_ready and not taints & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
