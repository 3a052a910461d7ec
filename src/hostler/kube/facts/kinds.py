"""Which resources a scheduler watches, and which of them a cluster may lack."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.kube.api.resources import (
    BUDGETS,
    CRD_POD_GROUPS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from hostler.manifests.objects.volumes import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass

__all__ = ["CSI_NODES", "KINDS", "STORAGE_CLASSES", "VOLUMES", "VOLUME_CLAIMS", "WatchedKind"]

VOLUME_CLAIMS = Resource(struct=PersistentVolumeClaim, kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
VOLUMES = Resource(struct=PersistentVolume, kind="PersistentVolume", plural="persistentvolumes", is_namespaced=False)
STORAGE_CLASSES = Resource(
    struct=StorageClass, kind="StorageClass", plural="storageclasses", group="storage.k8s.io", is_namespaced=False
)
CSI_NODES = Resource(struct=CSINode, kind="CSINode", plural="csinodes", group="storage.k8s.io", is_namespaced=False)


class WatchedKind(msgspec.Struct, frozen=True):
    """A resource to watch. An optional one is not served by every cluster, and the start does not wait for it."""

    resource: Resource[Any]
    is_optional: bool = False


# In the order in which they are sent at opening: pods can be converted only beside all others.
KINDS = (
    WatchedKind(NAMESPACES),
    WatchedKind(PRIORITY_CLASSES),
    WatchedKind(SERVICES),
    WatchedKind(REPLICATION_CONTROLLERS),
    WatchedKind(REPLICA_SETS),
    WatchedKind(STATEFUL_SETS),
    WatchedKind(STORAGE_CLASSES),
    WatchedKind(VOLUMES),
    WatchedKind(VOLUME_CLAIMS),
    WatchedKind(CRD_POD_GROUPS, is_optional=True),
    WatchedKind(POD_GROUPS, is_optional=True),
    WatchedKind(BUDGETS),
    WatchedKind(CSI_NODES),
    WatchedKind(NODES),
    WatchedKind(PODS),
)
