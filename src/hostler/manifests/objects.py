"""The fields of Kubernetes' Node and Pod that a scheduler reads, as msgspec structs.

Unknown fields are skipped, so a live client decodes bytes straight into these
(``msgspec.json.decode(data, type=Pod)``) and a file reader converts parsed YAML (``msgspec.convert(data,
Pod)``). Words with a fixed set of values (effects, operators) stay plain strings here: one object from a
newer cluster must not spoil the decoding of a whole list; the conversion to the model checks them. Used
by every module of this package, and later by ``kube``; the other kinds are in ``workload_objects`` and
``policy_objects``.
"""

from __future__ import annotations

import datetime

import msgspec

from hostler.manifests.metadata import Condition, LabelSelector, Metadata, Quantities, Read, Requirement, Unread

__all__ = [
    "Affinity",
    "Container",
    "ContainerPort",
    "ContainerStatus",
    "Node",
    "NodeAffinity",
    "NodeImage",
    "NodeSelector",
    "NodeSpec",
    "NodeStatus",
    "NodeTaint",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodSpec",
    "PodStatus",
    "PodToleration",
    "PodVolume",
    "PreferredPodTerm",
    "PreferredTerm",
    "ResourceLists",
    "SchedulingGroup",
    "SelectorTerm",
    "SpreadConstraint",
]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeTaint(Read, frozen=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Read, frozen=True):
    """What is wanted of a node."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeImage(Read, frozen=True):
    """An image that a node has already, under all its names; an old one may have lost them."""

    names: tuple[str, ...] | None = ()
    size_bytes: int = 0


class NodeStatus(Read, frozen=True):
    """What a node has, and what of it pods may use."""

    allocatable: Quantities = msgspec.field(default_factory=dict)
    capacity: Quantities = msgspec.field(default_factory=dict)
    images: tuple[NodeImage, ...] = ()


class Node(Read, frozen=True):
    """A machine of the cluster."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ResourceLists(Read, frozen=True):
    """What a container or a pod asks for and may use at most; None: the list is not there."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(Read, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(Read, frozen=True):
    """A container, an init container, or a sidecar (an init container that always restarts)."""

    name: str = ""
    image: str = ""
    resources: ResourceLists = ResourceLists()
    restart_policy: str = ""
    ports: tuple[ContainerPort, ...] = ()


class SelectorTerm(Read, frozen=True):
    """Requirements that must all hold."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Read, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[SelectorTerm, ...] = ()


class PreferredTerm(Read, frozen=True):
    """A term that should hold, and how much it counts."""

    weight: int
    preference: SelectorTerm = SelectorTerm()


class NodeAffinity(Read, frozen=True):
    """Which nodes a pod must and should run on."""

    required: NodeSelector | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredTerm, ...] = msgspec.field(default=(), name=_PREFERRED)


class PodAffinityTerm(Read, frozen=True):
    """Some other pods, and the label of nodes that says who is near to them."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPodTerm(Read, frozen=True):
    """A term that should hold, and how much it counts."""

    weight: int
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Read, frozen=True):
    """Which pods must and should be near, or must and should not."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(default=(), name=_REQUIRED)
    preferred: tuple[PreferredPodTerm, ...] = msgspec.field(default=(), name=_PREFERRED)


class Affinity(Read, frozen=True):
    """Affinity to nodes, and to and against other pods."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class SpreadConstraint(Read, frozen=True):
    """How evenly some pods must or should be spread over domains."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class PodToleration(Read, frozen=True):
    """A pod's word that it does not mind a taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SchedulingGroup(Read, frozen=True):
    """The group that a pod is placed with."""

    pod_group_name: str = ""


class ClaimSource(Read, frozen=True):
    """The claim that a volume is."""

    claim_name: str = ""


class PodVolume(Read, frozen=True):
    """A volume of a pod; of most sorts of volumes nothing is read, because they are there on every node."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Unread | None = None  # a claim that is made for the pod
    csi: Unread | None = None
    gce_persistent_disk: Unread | None = None
    aws_elastic_block_store: Unread | None = None
    azure_disk: Unread | None = None
    iscsi: Unread | None = None
    rbd: Unread | None = None


class PodSpec(Read, frozen=True):
    """What a pod wants."""

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


class ContainerStatus(Read, frozen=True):
    """What a node set aside for a container, and what it has set up."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceLists = ResourceLists()


class PodStatus(Read, frozen=True):
    """How a pod is doing."""

    phase: str = ""
    start_time: datetime.datetime | None = None
    resize: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Quantities | None = None
    resources: ResourceLists = ResourceLists()
    nominated_node_name: str = ""


class Pod(Read, frozen=True):
    """Something to run."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
