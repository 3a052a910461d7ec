"""The fields of objects that say where volumes are: claims, volumes, storage classes, and limits of nodes.

The rules of ``core`` apply. Used by ``kube``, which looks claims up on a live cluster.
"""

from __future__ import annotations

import msgspec

from hostler.manifests.objects.core import NodeSelector, ResourceLists
from hostler.manifests.objects.metadata import LabelSelector, Metadata, ObjectStruct, Quantities

__all__ = ["CSINode", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "TopologyTerm"]


class ClaimSpec(ObjectStruct, frozen=True):
    """The desired state of a claim; ``volume_name`` is its volume; ``storage_class_name`` None: not stated."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str | None = None
    resources: ResourceLists = ResourceLists()
    selector: LabelSelector | None = None


class ClaimStatus(ObjectStruct, frozen=True):
    """The observed state of a claim."""

    phase: str = ""


class PersistentVolumeClaim(ObjectStruct, frozen=True):
    """A claim for a volume."""

    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeAffinity(ObjectStruct, frozen=True):
    """The nodes that reach a volume; None: all of them."""

    required: NodeSelector | None = None


class ClaimReference(ObjectStruct, frozen=True):
    """The claim that a volume belongs to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(ObjectStruct, frozen=True):
    """The driver of a volume and the volume's name there."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(ObjectStruct, frozen=True):
    """The properties of a volume."""

    capacity: Quantities = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str | None = None
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None


class VolumeStatus(ObjectStruct, frozen=True):
    """The observed state of a volume."""

    phase: str = ""


class PersistentVolume(ObjectStruct, frozen=True):
    """A volume of the cluster."""

    metadata: Metadata = Metadata()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyExpression(ObjectStruct, frozen=True):
    """A node label and its values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(ObjectStruct, frozen=True):
    """Labels that must all have one of their values."""

    match_label_expressions: tuple[TopologyExpression, ...] = ()


class StorageClass(ObjectStruct, frozen=True):
    """How, when and where volumes are created."""

    metadata: Metadata = Metadata()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class DriverLimit(ObjectStruct, frozen=True):
    """How many volumes of a driver a node can attach; None: not stated."""

    count: int | None = None


class NodeDriver(ObjectStruct, frozen=True):
    """A storage driver on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CSINodeSpec(ObjectStruct, frozen=True):
    """The drivers on a node."""

    drivers: tuple[NodeDriver, ...] = ()


class CSINode(ObjectStruct, frozen=True):
    """What storage drivers report about a node, under the node's name."""

    metadata: Metadata = Metadata()
    spec: CSINodeSpec = CSINodeSpec()
