"""The fields of Kubernetes' Node and Pod that a scheduler reads, as msgspec structs.

Unknown fields are skipped, so a live client decodes bytes directly into these structs (``msgspec.json.decode(data,
type=Pod)``) and a file reader converts parsed YAML (``msgspec.convert(data, Pod)``). Enumerations (effects, operators)
are plain strings here, because one object of a newer cluster must not fail the decoding of a whole list; the conversion
to the model checks them. Used by every module of this package and by ``kube``.
"""

from __future__ import annotations

import datetime

import msgspec

from hostler.manifests.objects.metadata import (
    Condition,
    LabelSelector,
    Metadata,
    ObjectStruct,
    Quantities,
    Requirement,
    Unread,
)

__all__ = [
    "Affinity", "Container", "ContainerPort", "ContainerStatus", "Node", "NodeAffinity", "NodeImage", "NodeSelector",
    "NodeSpec", "NodeStatus", "NodeTaint", "Pod", "PodAffinity", "PodAffinityTerm", "PodSpec", "PodStatus",
    "PodToleration", "PodVolume", "PreferredPodTerm", "PreferredTerm", "ResourceLists", "SchedulingGroup",
    "SelectorTerm", "SpreadConstraint",
]  # fmt: skip

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeTaint(ObjectStruct, frozen=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(ObjectStruct, frozen=True):
    """The desired state of a node."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeImage(ObjectStruct, frozen=True):
    """An image on a node, with all its names; an old image may have none."""

    names: tuple[str, ...] | None = ()
    size_bytes: int = 0


class NodeStatus(ObjectStruct, frozen=True):
    """What a node has, and how much of it pods may use."""

    allocatable: Quantities = msgspec.field(default_factory=dict)
    capacity: Quantities = msgspec.field(default_factory=dict)
    images: tuple[NodeImage, ...] = ()


class Node(ObjectStruct, frozen=True):
    """A machine of the cluster."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ResourceLists(ObjectStruct, frozen=True):
    """Requests and limits of a container or a pod; None: the list is absent."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(ObjectStruct, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(ObjectStruct, frozen=True):
    """A container, an init container, or a sidecar (an init container that always restarts)."""

    name: str = ""
    image: str = ""
    resources: ResourceLists = ResourceLists()
    restart_policy: str = ""
    ports: tuple[ContainerPort, ...] = ()


class SelectorTerm(ObjectStruct, frozen=True):
    """Requirements that must all hold."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(ObjectStruct, frozen=True):
    """Terms; at least one must match."""

    node_selector_terms: tuple[SelectorTerm, ...] = ()


class PreferredTerm(ObjectStruct, frozen=True):
    """A preferred term with its weight."""

    weight: int
    preference: SelectorTerm = SelectorTerm()


class NodeAffinity(ObjectStruct, frozen=True):
    """The nodes that a pod requires and prefers."""

    required: NodeSelector | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredTerm, ...] = msgspec.field(default=(), name=_PREFERRED)


class PodAffinityTerm(ObjectStruct, frozen=True):
    """A set of other pods, and the node label that defines nearness."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPodTerm(ObjectStruct, frozen=True):
    """A preferred term with its weight."""

    weight: int
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ObjectStruct, frozen=True):
    """The pods that a pod requires and prefers to be near, or to avoid."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(default=(), name=_REQUIRED)
    preferred: tuple[PreferredPodTerm, ...] = msgspec.field(default=(), name=_PREFERRED)


class Affinity(ObjectStruct, frozen=True):
    """Affinity to nodes, and affinity and anti-affinity to other pods."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class SpreadConstraint(ObjectStruct, frozen=True):
    """How evenly selected pods must or should be spread over domains."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class PodToleration(ObjectStruct, frozen=True):
    """A pod's tolerance of taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SchedulingGroup(ObjectStruct, frozen=True):
    """The group with which a pod is placed."""

    pod_group_name: str = ""


class ClaimSource(ObjectStruct, frozen=True):
    """The claim behind a volume."""

    claim_name: str = ""


class PodVolume(ObjectStruct, frozen=True):
    """A volume of a pod. Only volumes that limit placement have fields here."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Unread | None = None  # a claim that is made for the pod
    csi: Unread | None = None
    gce_persistent_disk: Unread | None = None
    aws_elastic_block_store: Unread | None = None
    azure_disk: Unread | None = None
    iscsi: Unread | None = None
    rbd: Unread | None = None


class PodSpec(ObjectStruct, frozen=True):
    """The desired state of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceLists = ResourceLists()
    overhead: Quantities = msgspec.field(default_factory=dict)
    node_name: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity = Affinity()
    tolerations: tuple[PodToleration, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    host_network: bool = False
    preemption_policy: str = ""
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    resource_claims: tuple[Unread, ...] = ()
    scheduling_gates: tuple[Unread, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: Unread = msgspec.field(default_factory=dict)
    scheduler_name: str = ""


class ContainerStatus(ObjectStruct, frozen=True):
    """The resources that a node allocated to a container, and those in effect."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceLists = ResourceLists()


class PodStatus(ObjectStruct, frozen=True):
    """The observed state of a pod."""

    phase: str = ""
    start_time: datetime.datetime | None = None
    resize: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Quantities | None = None
    resources: ResourceLists = ResourceLists()
    nominated_node_name: str = ""


class Pod(ObjectStruct, frozen=True):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
