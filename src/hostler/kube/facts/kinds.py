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
from hostler.manifests.volume_objects import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass

__all__ = ["CSI_NODES", "KINDS", "STORAGE_CLASSES", "VOLUMES", "VOLUME_CLAIMS", "Kind"]

VOLUME_CLAIMS = Resource(struct=PersistentVolumeClaim, kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
VOLUMES = Resource(struct=PersistentVolume, kind="PersistentVolume", plural="persistentvolumes", is_namespaced=False)
STORAGE_CLASSES = Resource(
    struct=StorageClass, kind="StorageClass", plural="storageclasses", group="storage.k8s.io", is_namespaced=False
)
CSI_NODES = Resource(struct=CSINode, kind="CSINode", plural="csinodes", group="storage.k8s.io", is_namespaced=False)


class Kind(msgspec.Struct, frozen=True):
    """A resource to watch; an optional one is not served by every cluster, and nothing waits for it."""

    resource: Resource[Any]
    is_optional: bool = False


# In the order in which they are taken in when the world opens: pods mean something only beside all the others.
KINDS = (
    Kind(NAMESPACES),
    Kind(PRIORITY_CLASSES),
    Kind(SERVICES),
    Kind(REPLICATION_CONTROLLERS),
    Kind(REPLICA_SETS),
    Kind(STATEFUL_SETS),
    Kind(STORAGE_CLASSES),
    Kind(VOLUMES),
    Kind(VOLUME_CLAIMS),
    Kind(CRD_POD_GROUPS, is_optional=True),
    Kind(POD_GROUPS, is_optional=True),
    Kind(BUDGETS),
    Kind(CSI_NODES),
    Kind(NODES),
    Kind(PODS),
)
