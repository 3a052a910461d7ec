"""The fields of objects that say something about pods of others: Namespace, Service, PriorityClass, budgets, groups.

The same rules as in ``objects`` hold. Used by ``decoding``, ``surroundings``, ``budgets`` and ``gangs``.
"""

from __future__ import annotations

import msgspec

from hostler.manifests.metadata import LabelSelector, Metadata, Quantities, Read, Unread

__all__ = [
    "CrdPodGroup",
    "Namespace",
    "PodDisruptionBudget",
    "PodGroup",
    "PodGroupSpec",
    "PriorityClass",
    "SchedulingPolicy",
    "Service",
]


class Namespace(Read, frozen=True):
    """A namespace; only its labels count."""

    metadata: Metadata = Metadata()


class ServiceSpec(Read, frozen=True):
    """Which pods a service is made of; None: it does not say."""

    selector: dict[str, str] | None = None


class Service(Read, frozen=True):
    """A service; its pods are siblings."""

    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()


class PriorityClass(Read, frozen=True):
    """A name for a priority."""

    metadata: Metadata = Metadata()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class BudgetSpec(Read, frozen=True):
    """Which pods a budget is about; the rest is worked out by the cluster, into the status."""

    selector: LabelSelector | None = None


class BudgetStatus(Read, frozen=True):
    """How many pods may be disrupted now, and whose disruption is already counted."""

    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, object] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(Read, frozen=True):
    """How many of some pods may be disrupted."""

    metadata: Metadata = Metadata()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class GangPolicy(Read, frozen=True):
    """All or nothing, from so many pods on."""

    min_count: int


class SchedulingPolicy(Read, frozen=True):
    """How a group is placed: one of the two is set."""

    basic: Unread | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Read, frozen=True):
    """The label of nodes whose value all pods of a group share."""

    key: str = ""


class SchedulingConstraints(Read, frozen=True):
    """Where a group may be placed."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(Read, frozen=True):
    """What a group wants. The disruption mode was a word before it became an object."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    policy: Unread | None = None  # what it was called before; only to tell
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    disruption_mode: str | Unread = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    parent_composite_pod_group_name: str = ""
    resource_claims: tuple[Unread, ...] = ()


class PodGroup(Read, frozen=True):
    """Pods that are placed together, in the form that is built into Kubernetes (scheduling.k8s.io)."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()


class CrdPodGroupSpec(Read, frozen=True):
    """What a group of the older form wants."""

    min_member: int | None = None
    min_resources: Quantities = msgspec.field(default_factory=dict)
    schedule_timeout_seconds: int | None = None


class CrdPodGroup(Read, frozen=True):
    """Pods that are placed together, in the older form of scheduler-plugins (scheduling.x-k8s.io)."""

    metadata: Metadata = Metadata()
    spec: CrdPodGroupSpec = CrdPodGroupSpec()
