"""One listing of a live cluster, and a pod found in it by name or uid.

For commands that run once. A pod is named as in kubectl, by NAME, NAMESPACE/NAME or pod/NAME, or by its uid.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from hostler.config import did_you_mean
from hostler.errors import UnknownNameError
from hostler.kube.api.access import Access
from hostler.kube.api.client import KubeClient
from hostler.kube.live.listings import Listings, list_all
from hostler.manifests import Pod

__all__ = [
    "UNSCHEDULABLE",
    "ClusterListing",
    "ask_cluster",
    "find_pod",
    "list_cluster",
    "pod_not_found",
    "scheduler_message",
]
__all__ += ["pod_named"]

T = TypeVar("T")

UNSCHEDULABLE = "Unschedulable"  # the reason in the condition of a pod that fits nowhere
_AS_KUBECTL_NAMES = ("pod/", "pods/", "po/")
_MAKERS = ("cronjob", "daemonset", "deployment", "job", "replicaset", "replicationcontroller", "statefulset")
_IN_SHORT = {"cj": "cronjob", "ds": "daemonset", "deploy": "deployment", "rs": "replicaset", "sts": "statefulset"}


class ClusterListing(NamedTuple):
    """The objects of a cluster, the access that was used, and when it was listed."""

    listings: Listings
    access: Access
    at: int


async def list_cluster(access: Access) -> ClusterListing:
    """List everything that a scheduler watches."""
    listings = await ask_cluster(access, list_all)
    return ClusterListing(listings, access, time.time_ns())  # noqa: TID251 - a cluster's own times are wall times


async def ask_cluster(access: Access, question: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Run one query on the API server, with a client of its own."""
    from hostler.kube.api.http import AiohttpTransport  # imported when needed: aiohttp may be missing

    client = KubeClient(AiohttpTransport(access, max_connections=8), user_agent="hostler-cli")
    try:
        return await question(client)
    finally:
        await client.close()


def pod_named(wanted: str, namespace: str, usual: str) -> tuple[str, str]:
    """Return namespace and name of a pod given as ``name``, ``namespace/name`` or ``pod/name``."""
    for prefix in _AS_KUBECTL_NAMES:
        wanted = wanted.removeprefix(prefix)
    where, _, name = wanted.rpartition("/")
    return where or namespace or usual, name


def find_pod(seen: ClusterListing, wanted: str, namespace: str) -> Pod:
    """Find a pod by its uid, or by name as ``pod_named`` does."""
    where, name = pod_named(wanted, namespace, seen.access.namespace)
    pods = [item for item in seen.listings["", "pods"] if isinstance(item, Pod)]
    for pod in pods:
        if pod.metadata.uid == wanted or (pod.metadata.namespace, pod.metadata.name) == (where, name):
            return pod
    near = did_you_mean(name, [pod.metadata.name for pod in pods if pod.metadata.namespace == where])
    elsewhere = next((pod.metadata.namespace for pod in pods if pod.metadata.name == name), "")
    raise pod_not_found(
        wanted, where, name, f"it exists in namespace {elsewhere}: -n {elsewhere}" if elsewhere else near
    )


def pod_not_found(wanted: str, where: str, name: str, hint: str = "") -> UnknownNameError:
    """Return the error for a missing pod, with a hint if a workload of that name exists."""
    kind = wanted.partition("/")[0].split(".")[0]
    kind = _IN_SHORT.get(kind, kind.removesuffix("s"))
    if kind in _MAKERS and "/" in wanted:
        return UnknownNameError(
            f"{wanted} is not a pod", hint=f"name one of its pods: 'kubectl get pods' lists {name}-…"
        )
    hint = hint or "-n names another namespace"
    return UnknownNameError(f"there is no pod {name!r} in namespace {where}", hint=hint)


def scheduler_message(pod: Pod, message: str) -> str:
    """Return the scheduler's message about a waiting pod, if it differs from ours."""
    if pod.spec.node_name:
        return ""
    said = [one.message for one in pod.status.conditions if one.type == "PodScheduled" and one.reason == UNSCHEDULABLE]
    return "" if not said or (message and said[0].startswith(message)) else said[0]
