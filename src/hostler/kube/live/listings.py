"""List everything that a scheduler watches, once, and find a pod in that listing by name or uid.

For commands that run once: no watch, no copy that stays current. A missing right is named with its verb and resource,
so that the user can ask the administrator for it. A pod is named as in kubectl, by NAME, NAMESPACE/NAME or pod/NAME, or
by its uid. Used by ``snapshot`` and by commands.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from hostler.config import did_you_mean
from hostler.errors import UnavailableError, UnknownNameError
from hostler.kube.api.access import Access
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.failures import ApiError
from hostler.kube.facts.kinds import KINDS, WatchedKind
from hostler.manifests import Pod

__all__ = [
    "UNSCHEDULABLE",
    "ClusterListing",
    "Listings",
    "ask_cluster",
    "find_pod",
    "list_all",
    "list_cluster",
    "missing_right",
    "pod_named",
    "pod_not_found",
    "scheduler_message",
]

# By group and plural: the decoded objects, or undecodable ones.
Listings: TypeAlias = Mapping[tuple[str, str], Sequence[Any | UndecodableObject]]

_AT_ONCE = 4

T = TypeVar("T")

UNSCHEDULABLE = "Unschedulable"  # the reason in the condition of a pod that fits nowhere
_AS_KUBECTL_NAMES = ("pod/", "pods/", "po/")
_MAKERS = ("cronjob", "daemonset", "deployment", "job", "replicaset", "replicationcontroller", "statefulset")
_IN_SHORT = {"cj": "cronjob", "ds": "daemonset", "deploy": "deployment", "rs": "replicaset", "sts": "statefulset"}


class _ApiResourceList(msgspec.Struct):
    name: str = ""


class _Discovery(msgspec.Struct):
    resources: list[_ApiResourceList] = []


async def list_all(client: KubeClient) -> Listings:
    """List all kinds, a few at a time; an optional kind that the server does not have is empty."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(kind: WatchedKind) -> Sequence[Any | UndecodableObject]:
        async with room:
            return await _list(client, kind)

    # All are awaited, even if one fails: a cancelled call would leave a connection open.
    found = await asyncio.gather(*map(one, KINDS), return_exceptions=True)
    _raise_failures(found)
    return {
        (kind.resource.group, kind.resource.plural): items
        for kind, items in zip(KINDS, found, strict=True)
        if not isinstance(items, BaseException)
    }


def missing_right(verb: str, resource: str, error: ApiError) -> UnavailableError:
    """Describe the missing right, and what the server said about it."""
    if error.status == 401:
        return UnavailableError(f"authentication failed: {error.text}", hint="renew the credentials in the kubeconfig")
    return UnavailableError(
        f"not allowed to {verb} {resource}: {error.text}",
        hint=f"ask for the right to {verb} {resource} in all namespaces, or use another --context",
    )


def _raise_failures(found: Sequence[object]) -> None:
    """Raise the first failure; missing rights are named all at once."""
    failures = [(kind, one) for kind, one in zip(KINDS, found, strict=True) if isinstance(one, BaseException)]
    if not failures:
        return
    error = failures[0][1]
    if not (isinstance(error, ApiError) and error.is_forbidden):
        raise error
    names = [_name(kind) for kind, one in failures if isinstance(one, ApiError) and one.is_forbidden]
    raise missing_right("list", ", ".join(names), error) from error


async def _list(client: KubeClient, kind: WatchedKind) -> Sequence[Any | UndecodableObject]:
    try:
        return (await client.list(kind.resource)).items
    except ApiError as error:
        if kind.is_optional and (error.is_gone or (error.status == 403 and await _is_absent(client, kind))):
            return ()
        raise


async def _is_absent(client: KubeClient, kind: WatchedKind) -> bool:
    """Return whether the server has no such API: without the right to read, it answers 403 and not 404."""
    try:
        found = msgspec.json.decode(await client.read(f"/apis/{kind.resource.api_version}"), type=_Discovery)
    except ApiError as error:
        return error.is_gone
    return all(one.name != kind.resource.plural for one in found.resources)


def _name(kind: WatchedKind) -> str:
    resource = kind.resource
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


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
