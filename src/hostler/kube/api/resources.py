"""Which resources of the API are used, where they live, and how their objects are read.

Only the fields that we read are decoded (never ``managedFields``). Used by ``client`` and ``reflector``, and by
everything that names a resource.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from hostler.manifests.metadata import Metadata, Read
from hostler.manifests.objects import Node, Pod
from hostler.manifests.policy_objects import (
    CrdPodGroup,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Service,
)
from hostler.manifests.workload_objects import ReplicaSet, ReplicationController, StatefulSet

__all__ = [
    "BUDGETS",
    "CRD_POD_GROUPS",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "POD_GROUPS",
    "PRIORITY_CLASSES",
    "REPLICATION_CONTROLLERS",
    "REPLICA_SETS",
    "SERVICES",
    "STATEFUL_SETS",
    "Item",
    "Lease",
    "LeaseSpec",
    "Named",
    "Object",
    "Resource",
]


class Object(Protocol):
    """What can be read from the API: whatever says who it is."""

    @property
    def metadata(self) -> Metadata:
        """Return who it is."""
        ...


class Named(Read, frozen=True):
    """The part that all objects share."""

    metadata: Metadata = Metadata()


class LeaseSpec(Read, frozen=True):
    """Who holds a lease and since when; times stay as they were written (RFC 3339 with microseconds)."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Read, frozen=True):
    """A lease: who may act."""

    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()


Item = TypeVar("Item", bound=Object)


class Resource(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """One resource of the API: its group (empty for the core), version, plural, kind, and how its objects are read."""

    struct: type[Item]
    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return what objects call their version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of a collection, of an object, or of a part of it (a subresource)."""
        # Names come from users too: none may lead to another path.
        namespace, name = quote(namespace, safe=":"), quote(name, safe=":")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{namespace}" if namespace and self.is_namespaced else ""
        ending = "".join(f"/{word}" for word in (name, part) if word)
        return f"{root}{space}/{self.plural}{ending}"


PODS = Resource(struct=Pod, kind="Pod", plural="pods")
NODES = Resource(struct=Node, kind="Node", plural="nodes", is_namespaced=False)
NAMESPACES = Resource(struct=Namespace, kind="Namespace", plural="namespaces", is_namespaced=False)
SERVICES = Resource(struct=Service, kind="Service", plural="services")
REPLICATION_CONTROLLERS = Resource(
    struct=ReplicationController, kind="ReplicationController", plural="replicationcontrollers"
)
REPLICA_SETS = Resource(struct=ReplicaSet, kind="ReplicaSet", plural="replicasets", group="apps")
STATEFUL_SETS = Resource(struct=StatefulSet, kind="StatefulSet", plural="statefulsets", group="apps")
PRIORITY_CLASSES = Resource(
    struct=PriorityClass, kind="PriorityClass", plural="priorityclasses", group="scheduling.k8s.io", is_namespaced=False
)
BUDGETS = Resource(
    struct=PodDisruptionBudget, kind="PodDisruptionBudget", plural="poddisruptionbudgets", group="policy"
)
POD_GROUPS = Resource(
    struct=PodGroup, kind="PodGroup", plural="podgroups", group="scheduling.k8s.io", version="v1beta1"
)
CRD_POD_GROUPS = Resource(
    struct=CrdPodGroup, kind="PodGroup", plural="podgroups", group="scheduling.x-k8s.io", version="v1alpha1"
)
LEASES = Resource(struct=Lease, kind="Lease", plural="leases", group="coordination.k8s.io")
EVENTS = Resource(struct=Named, kind="Event", plural="events", group="events.k8s.io")
