"""The fields of objects that say where volumes are: claims, volumes, storage classes, and what nodes attach.

The same rules as in ``objects`` hold. Used by ``kube``, which looks claims up on a live cluster.
"""

from __future__ import annotations

import msgspec

from hostler.manifests.metadata import LabelSelector, Metadata, Quantities, Read
from hostler.manifests.objects import NodeSelector, ResourceLists

__all__ = ["CSINode", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "TopologyTerm"]


class ClaimSpec(Read, frozen=True):
    """What a claim wants; ``volume_name`` is the volume it got, ``storage_class_name`` None that it does not say."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str | None = None
    resources: ResourceLists = ResourceLists()
    selector: LabelSelector | None = None


class ClaimStatus(Read, frozen=True):
    """How a claim is doing."""

    phase: str = ""


class PersistentVolumeClaim(Read, frozen=True):
    """A wish for a volume."""

    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeAffinity(Read, frozen=True):
    """Which nodes reach a volume; None: all of them."""

    required: NodeSelector | None = None


class ClaimReference(Read, frozen=True):
    """Whose volume it is."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(Read, frozen=True):
    """By which driver a volume is attached, and as what."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Read, frozen=True):
    """What a volume is."""

    capacity: Quantities = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str | None = None
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None


class VolumeStatus(Read, frozen=True):
    """How a volume is doing."""

    phase: str = ""


class PersistentVolume(Read, frozen=True):
    """A volume of the cluster."""

    metadata: Metadata = Metadata()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyExpression(Read, frozen=True):
    """A label of nodes, and its values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Read, frozen=True):
    """Labels that must all have one of their values."""

    match_label_expressions: tuple[TopologyExpression, ...] = ()


class StorageClass(Read, frozen=True):
    """How volumes are made, when, and where."""

    metadata: Metadata = Metadata()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class DriverLimit(Read, frozen=True):
    """How many volumes of a driver a node attaches; None: it does not say."""

    count: int | None = None


class Driver(Read, frozen=True):
    """A driver on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CSINodeSpec(Read, frozen=True):
    """The drivers on a node."""

    drivers: tuple[Driver, ...] = ()


class CSINode(Read, frozen=True):
    """What storage drivers say about a node, under the node's name."""

    metadata: Metadata = Metadata()
    spec: CSINodeSpec = CSINodeSpec()
