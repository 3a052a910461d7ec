"""The fields of Kubernetes' Node and Pod that a scheduler reads, as msgspec structs.

Unknown fields are skipped, so a live client decodes bytes straight into these
(``msgspec.json.decode(data, type=Pod)``) and a file reader converts parsed YAML (``msgspec.convert(data,
Pod)``). Words with a fixed set of values (effects, operators) stay plain strings here: one object from a
newer cluster must not spoil the decoding of a whole list; the conversion to the model checks them. Used
by every module of this package, and later by ``kube``.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = [
    "Affinity",
    "Condition",
    "Container",
    "ContainerPort",
    "ContainerStatus",
    "Metadata",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSpec",
    "NodeStatus",
    "NodeTaint",
    "Pod",
    "PodSpec",
    "PodStatus",
    "PodToleration",
    "PreferredTerm",
    "Quantities",
    "Quantity",
    "Requirement",
    "ResourceLists",
    "SelectorTerm",
    "Unread",
]

Quantity: TypeAlias = str | int | float
Quantities: TypeAlias = dict[str, Quantity]
Unread: TypeAlias = dict[str, object]  # something whose presence matters, but not yet its content


class Read(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of all structs here: camelCase names, unknown fields skipped."""


class Metadata(Read, frozen=True):
    """Who an object is, and its marks."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str | int = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: object = None


class NodeTaint(Read, frozen=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Read, frozen=True):
    """What is wanted of a node."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeStatus(Read, frozen=True):
    """What a node has, and what of it pods may use."""

    allocatable: Quantities = {}
    capacity: Quantities = {}


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


class Container(Read, frozen=True):
    """A container, an init container, or a sidecar (an init container that always restarts)."""

    name: str = ""
    resources: ResourceLists = ResourceLists()
    restart_policy: str = ""
    ports: tuple[ContainerPort, ...] = ()


class Requirement(Read, frozen=True):
    """One requirement on a label or a field of a node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


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

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Read, frozen=True):
    """Affinity to nodes, and to and against other pods."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: Unread = {}
    pod_anti_affinity: Unread = {}


class PodToleration(Read, frozen=True):
    """A pod's word that it does not mind a taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PodSpec(Read, frozen=True):
    """What a pod wants."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceLists = ResourceLists()
    overhead: Quantities = {}
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[PodToleration, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    host_network: bool = False
    topology_spread_constraints: tuple[Unread, ...] = ()
    volumes: tuple[Unread, ...] = ()
    resource_claims: tuple[Unread, ...] = ()
    scheduling_gates: tuple[Unread, ...] = ()
    scheduling_group: Unread = {}


class Condition(Read, frozen=True):
    """A condition of a pod."""

    type: str = ""
    reason: str = ""


class ContainerStatus(Read, frozen=True):
    """What a node set aside for a container, and what it has set up."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceLists = ResourceLists()


class PodStatus(Read, frozen=True):
    """How a pod is doing."""

    phase: str = ""
    resize: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Quantities | None = None
    resources: ResourceLists = ResourceLists()


class Pod(Read, frozen=True):
    """Something to run."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
