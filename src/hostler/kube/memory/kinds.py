"""The built-in resources of the API server in memory. Custom resources are added at run time."""

from __future__ import annotations

import msgspec

__all__ = ["BUILT_IN", "ServedKind"]


class ServedKind(msgspec.Struct, frozen=True, kw_only=True):
    """One resource: its path and how its objects behave."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True
    has_status: bool = False  # a status that only its own subresource writes
    has_generation: bool = False  # counts changes of the spec
    is_custom: bool = False
    needs_version: bool = False  # a replacement must say which version it replaces
    may_create_by_put: bool = False

    @property
    def api_version(self) -> str:
        """Return the apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Return its name in error messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def root(self) -> str:
        """Return the path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def _core(kind: str, plural: str, *, is_namespaced: bool = True, has_status: bool = False) -> ServedKind:
    return ServedKind(kind=kind, plural=plural, is_namespaced=is_namespaced, has_status=has_status)


_STORAGE = "storage.k8s.io"
_SCHEDULING = "scheduling.k8s.io"

BUILT_IN = (
    ServedKind(kind="Pod", plural="pods", has_status=True, has_generation=True),
    _core("Node", "nodes", is_namespaced=False, has_status=True),
    _core("Namespace", "namespaces", is_namespaced=False, has_status=True),
    _core("Service", "services", has_status=True),
    _core("ReplicationController", "replicationcontrollers", has_status=True),
    _core("PersistentVolume", "persistentvolumes", is_namespaced=False, has_status=True),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", has_status=True),
    _core("ConfigMap", "configmaps"),
    _core("ServiceAccount", "serviceaccounts"),
    ServedKind(kind="Event", plural="events", group="events.k8s.io", may_create_by_put=True),
    ServedKind(kind="ReplicaSet", plural="replicasets", group="apps", has_status=True, has_generation=True),
    ServedKind(kind="StatefulSet", plural="statefulsets", group="apps", has_status=True, has_generation=True),
    ServedKind(
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        group="policy",
        has_status=True,
        has_generation=True,
        needs_version=True,
    ),
    ServedKind(
        kind="Lease",
        plural="leases",
        group="coordination.k8s.io",
        needs_version=True,
        may_create_by_put=True,
    ),
    ServedKind(
        kind="PriorityClass", plural="priorityclasses", group=_SCHEDULING, is_namespaced=False, has_generation=True
    ),
    ServedKind(kind="PodGroup", plural="podgroups", group=_SCHEDULING, version="v1beta1", has_status=True),
    ServedKind(kind="Workload", plural="workloads", group=_SCHEDULING, version="v1beta1"),
    ServedKind(kind="StorageClass", plural="storageclasses", group=_STORAGE, is_namespaced=False),
    ServedKind(kind="CSINode", plural="csinodes", group=_STORAGE, is_namespaced=False),
    ServedKind(kind="CSIDriver", plural="csidrivers", group=_STORAGE, is_namespaced=False),
    ServedKind(kind="CSIStorageCapacity", plural="csistoragecapacities", group=_STORAGE),
    ServedKind(
        kind="VolumeAttachment", plural="volumeattachments", group=_STORAGE, is_namespaced=False, has_status=True
    ),
    ServedKind(
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        group="apiextensions.k8s.io",
        is_namespaced=False,
        has_status=True,
        has_generation=True,
        needs_version=True,
    ),
)
