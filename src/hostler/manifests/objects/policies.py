"""The fields of objects that describe pods of others: Namespace, Service, PriorityClass, budgets, groups.

The rules of ``core`` apply. Used by ``decoder``, ``surroundings``, ``budgets`` and ``gangs``.
"""

from __future__ import annotations

import msgspec

from hostler.manifests.objects.metadata import LabelSelector, Metadata, ObjectStruct, Quantities, Unread

__all__ = [
    "CrdPodGroup", "Namespace", "PodDisruptionBudget", "PodGroup", "PodGroupSpec", "PriorityClass", "SchedulingPolicy",
    "Service",
]  # fmt: skip


class Namespace(ObjectStruct, frozen=True):
    """A namespace; only its labels are read."""

    metadata: Metadata = Metadata()


class ServiceSpec(ObjectStruct, frozen=True):
    """The pods of a service; None: no selector."""

    selector: dict[str, str] | None = None


class Service(ObjectStruct, frozen=True):
    """A service; its pods are siblings."""

    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()


class PriorityClass(ObjectStruct, frozen=True):
    """A named priority."""

    metadata: Metadata = Metadata()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class BudgetSpec(ObjectStruct, frozen=True):
    """The pods of a budget; the controller computes the rest into the status."""

    selector: LabelSelector | None = None


class BudgetStatus(ObjectStruct, frozen=True):
    """How many pods may be disrupted now, and pods whose disruption is already counted."""

    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, object] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(ObjectStruct, frozen=True):
    """How many of some pods may be disrupted."""

    metadata: Metadata = Metadata()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class GangPolicy(ObjectStruct, frozen=True):
    """All or nothing, with a minimum of pods."""

    min_count: int


class SchedulingPolicy(ObjectStruct, frozen=True):
    """How a group is placed: exactly one of the fields is set."""

    basic: Unread | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(ObjectStruct, frozen=True):
    """The label of nodes whose value all pods of a group share."""

    key: str = ""


class SchedulingConstraints(ObjectStruct, frozen=True):
    """Where a group may be placed."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(ObjectStruct, frozen=True):
    """The desired state of a group. The disruption mode was a string before it became an object."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    policy: Unread | None = None  # what it was called before; only to tell
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    disruption_mode: str | Unread = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    parent_composite_pod_group_name: str = ""
    resource_claims: tuple[Unread, ...] = ()


class PodGroup(ObjectStruct, frozen=True):
    """Pods that are placed together, in the form built into Kubernetes (scheduling.k8s.io)."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()


class CrdPodGroupSpec(ObjectStruct, frozen=True):
    """The desired state of a group in the older form."""

    min_member: int | None = None
    min_resources: Quantities = msgspec.field(default_factory=dict)
    schedule_timeout_seconds: int | None = None


class CrdPodGroup(ObjectStruct, frozen=True):
    """Pods that are placed together, in the older form of scheduler-plugins (scheduling.x-k8s.io)."""

    metadata: Metadata = Metadata()
    spec: CrdPodGroupSpec = CrdPodGroupSpec()
