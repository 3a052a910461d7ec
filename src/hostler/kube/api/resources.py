"""The resources of the API that are used: their paths, and the structs of their objects.

Only fields that are used are decoded (never ``managedFields``). Used by ``client``, ``reflector`` and every module that
names a resource.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from hostler.manifests.objects.core import Node, Pod
from hostler.manifests.objects.metadata import Metadata, ObjectStruct
from hostler.manifests.objects.policies import (
    CrdPodGroup,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Service,
)
from hostler.manifests.objects.workloads import ReplicaSet, ReplicationController, StatefulSet

__all__ = [
    "BUDGETS", "CRD_POD_GROUPS", "EVENTS", "LEASES", "NAMESPACES", "NODES", "PODS", "POD_GROUPS", "PRIORITY_CLASSES",
    "REPLICATION_CONTROLLERS", "REPLICA_SETS", "SERVICES", "STATEFUL_SETS", "Item", "LeaseObject", "LeaseSpec", "Named",
    "Object", "Resource",
]  # fmt: skip


class Object(Protocol):
    """Any object that can be read from the API: it has metadata."""

    @property
    def metadata(self) -> Metadata:
        """Return its metadata."""
        ...


class Named(ObjectStruct, frozen=True):
    """The part that all objects share."""

    metadata: Metadata = Metadata()


class LeaseSpec(ObjectStruct, frozen=True):
    """The holder of a lease and since when. Times stay as they were written (RFC 3339 with microseconds)."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(ObjectStruct, frozen=True):
    """A Lease of coordination.k8s.io; its holder is the leader."""

    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()


Item = TypeVar("Item", bound=Object)


class Resource(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """One resource of the API: group (empty for core), version, plural, kind, and the struct of its objects."""

    struct: type[Item]
    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of a collection, of an object, or of a subresource."""
        # Names may be user input: none may lead to another path.
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
LEASES = Resource(struct=LeaseObject, kind="Lease", plural="leases", group="coordination.k8s.io")
EVENTS = Resource(struct=Named, kind="Event", plural="events", group="events.k8s.io")
