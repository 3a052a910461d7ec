"""The structs that describe a file of kind ``Scheduler``, key by key; unknown keys are rejected.

The JSON schema is made from them, so their docstrings and descriptions are for users.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config import means
from hostler.config.policy_file import PolicyEntry, PreemptionEntry
from hostler.config.settings import QueueEntry
from hostler.kube.settings import DEFAULT_SCHEDULER_NAME

__all__ = [
    "ElectionEntry", "ExtenderEntry", "GangsEntry", "LimitsEntry", "ManagedEntry", "ProfileEntry", "SchedulerFile",
]  # fmt: skip

Many = Annotated[int, Meta(ge=1, le=10_000)]
Weight = Annotated[int, Meta(ge=0, le=10_000)]


class ProfileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy that places pods with this scheduler name."""

    scheduler_name: Annotated[str, means("What pods have in spec.schedulerName.")] = DEFAULT_SCHEDULER_NAME
    policy: Annotated[
        str | PolicyEntry, means("A policy by its name, built in or under 'policies', or one written here.")
    ] = "kubernetes"


class ElectionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Leader election: of several schedulers of the same name, only the holder of a Lease binds."""

    enabled: Annotated[bool, means("False: no election; for a single process only.")] = True
    namespace: Annotated[str, means("The namespace of the Lease.")] = "kube-system"
    name: Annotated[str, means("The name of the Lease.")] = DEFAULT_SCHEDULER_NAME
    lease: Annotated[str, means("Time after the last renewal until another scheduler takes over; 1s to 1h.")] = "15s"
    renew: Annotated[str, means("A leader that could not renew for this long stops writing; shorter than lease.")] = (
        "10s"
    )
    retry: Annotated[str, means("Pause between two attempts; 1.2 times it must be less than renew.")] = "2s"


class LimitsEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many calls may be sent to the API server at once, and how long to wait for it."""

    max_in_flight: Annotated[Many, means("How many binds may be in flight; fewer while the server is slow.")] = 64
    bind_timeout: Annotated[
        str | UnsetType,
        means("Time limit of a bind; shorter than lease minus renew. 4s if unset, or less if needed."),
    ] = UNSET
    call_timeout: Annotated[str, means("Time limit of any other call.")] = "30s"


class GangsEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for gangs that their PodGroups do not define."""

    when_broken: Annotated[
        Literal["keep", "prefer_repair", "release_after"],
        means("A running gang below its minimum: keep it, repair it before others are placed, or release it in time."),
    ] = "keep"
    release_after: Annotated[str, means("How long a broken gang may be repaired before it is released.")] = "1m"
    head_of_line: Annotated[
        Literal["skip", "reserve"],
        means("A gang without room: others pass it, or it reserves the room that it waits for."),
    ] = "skip"
    priority: Annotated[
        Literal["lowest", "highest"],
        means("Priority of a gang whose PodGroup gives none: that of its lowest, or of its highest member."),
    ] = "lowest"


class ManagedEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource that an extender manages."""

    name: Annotated[str, means("The resource's name.")]
    ignored_by_scheduler: Annotated[bool, means("True: only the extender counts it.")] = False


class ExtenderEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An HTTP service that filters and scores nodes, as kube-scheduler's extenders do."""

    url_prefix: Annotated[str, means("Its URL; verbs are appended to it.")]
    filter_verb: Annotated[str, means("The filter verb. Empty: not called.")] = ""
    prioritize_verb: Annotated[str, means("The score verb. Empty: not called.")] = ""
    preempt_verb: Annotated[str, means("Accepted and never called: the scheduler chooses victims.")] = ""
    bind_verb: Annotated[str, means("The bind verb. Empty: the scheduler binds. Only one extender may have it.")] = ""
    weight: Annotated[Weight, means("The weight of its scores.")] = 1
    timeout: Annotated[
        str | UnsetType,
        means("Time limit of a call. 5s if unset; shorter than lease minus renew if it binds."),
    ] = UNSET
    node_cache_capable: Annotated[bool, means("True: it gets the names of nodes, not whole nodes.")] = False
    managed_resources: Annotated[
        list[str | ManagedEntry], means("It is called only for pods that request one of these. Empty: for all.")
    ] = []
    ignorable: Annotated[bool, means("True: when it fails, decide without it. False: try again later.")] = False
    ca_file: Annotated[str, means("The authorities that verify its certificate. Empty: the system's.")] = ""
    cert_file: Annotated[str, means("The client certificate.")] = ""
    key_file: Annotated[str, means("The key of the certificate.")] = ""
    server_name: Annotated[str, means("The name in its certificate, if it differs from the address.")] = ""
    insecure: Annotated[bool, means("True: its certificate is not verified.")] = False


class SchedulerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How 'hostler kube schedule' places the pods of a cluster."""

    apiVersion: Annotated[Literal["hostler/v1"], means("The version of the format.")]
    kind: Annotated[Literal["Scheduler"], means("The kind of the file.")]
    profiles: Annotated[
        list[ProfileEntry] | UnsetType,
        means(f"The policy of each scheduler name. Unset: {DEFAULT_SCHEDULER_NAME}, by kubernetes."),
    ] = UNSET
    policies: Annotated[list[PolicyEntry], means("Custom policies, beside the built-in ones.")] = []
    preemption: Annotated[
        PreemptionEntry | UnsetType | None,
        means("How pods of lower priority are evicted, for all profiles. Unset: as each policy says, else the usual "
        "rules. null: never."),
    ] = UNSET  # fmt: skip
    one_pod_per_node: Annotated[bool, means("True: a node takes one pod, whatever its size.")] = False
    queue: Annotated[QueueEntry, means("How often unschedulable pods are tried again.")] = QueueEntry()
    election: Annotated[ElectionEntry, means("Leader election between several schedulers.")] = ElectionEntry()
    limits: Annotated[LimitsEntry, means("Limits of calls to the API server.")] = LimitsEntry()
    gangs: Annotated[GangsEntry, means("Rules for all gangs.")] = GangsEntry()
    extenders: Annotated[list[ExtenderEntry], means("Extenders, in the order of their calls.")] = []
    seed_annotations: Annotated[
        bool, means("True: the annotations 'priority' and 'pod-group' count. Any user can then raise a pod's priority.")
    ] = False
    scheduler_metrics: Annotated[
        bool,
        means("True: metrics are served under kube-scheduler's names too, for dashboards and alerts made for it."),
    ] = False
    listen: Annotated[str, means("Address of probes, metrics and explanations. none, or empty: do not serve them.")] = (
        "127.0.0.1:10359"
    )
    kubeconfig: Annotated[str, means("The kubeconfig; --kubeconfig takes precedence. Empty: the usual places.")] = ""
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1), means("The seed of random choices between equal nodes.")] = 0
