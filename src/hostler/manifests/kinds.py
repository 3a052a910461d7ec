"""Which kinds of Kubernetes objects are read, by apiVersion and kind, and what each is called.

Used by ``lists`` and ``reader``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hostler.manifests.decoding import name_in
from hostler.manifests.objects import Node, Pod
from hostler.manifests.places import DEFAULT_NAMESPACE, node_place, object_place, pod_place
from hostler.manifests.policy_objects import (
    CrdPodGroup,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Service,
)
from hostler.manifests.workload_objects import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

__all__ = ["Object", "list_item_kind", "place_of", "struct_of"]

Object: TypeAlias = (
    Node
    | Pod
    | Namespace
    | Service
    | PriorityClass
    | PodDisruptionBudget
    | PodGroup
    | CrdPodGroup
    | Deployment
    | ReplicaSet
    | ReplicationController
    | StatefulSet
    | DaemonSet
    | Job
    | CronJob
)

_KINDS: dict[tuple[str, str], type[Object]] = {
    ("v1", "Node"): Node,
    ("v1", "Pod"): Pod,
    ("v1", "Namespace"): Namespace,
    ("v1", "Service"): Service,
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("batch/v1", "Job"): Job,
    ("batch/v1", "CronJob"): CronJob,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
}
# Groups whose versions are young and still change their number.
_KINDS_OF_ANY_VERSION: dict[tuple[str, str], type[Object]] = {
    ("scheduling.k8s.io", "PodGroup"): PodGroup,
    ("scheduling.x-k8s.io", "PodGroup"): CrdPodGroup,
}
_WITHOUT_NAMESPACE = (Namespace, Node, PriorityClass)


def struct_of(version: str, kind: str) -> type[Object] | None:
    """Find how objects of a kind are read; None when they are not."""
    group = version.rpartition("/")[0]
    return _KINDS.get((version, kind)) or _KINDS_OF_ANY_VERSION.get((group, kind))


def list_item_kind(version: str, kind: str) -> str | None:
    """Return the kind of a list's items, empty when they say it themselves; None when it is no list that is read."""
    if (version, kind) == ("v1", "List"):
        return ""
    item_kind = kind.removesuffix("List")
    return item_kind if item_kind != kind and struct_of(version, item_kind) else None


def place_of(struct: type[Object] | None, kind: str, data: Mapping[str, object]) -> str:
    """Name an object as errors and notes do."""
    namespace, name = name_in(data, "namespace"), name_in(data, "name")
    if struct is Node:
        return node_place(name)
    if struct is Pod:
        return pod_place(namespace, name)
    if struct in _WITHOUT_NAMESPACE:
        return object_place(kind, "", name)
    return object_place(kind, namespace or (DEFAULT_NAMESPACE if struct is not None else ""), name)
