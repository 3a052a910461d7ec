"""The structs that describe a file of kind ``Scheduler``, key by key; unknown keys are refused.

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
    "ElectionEntry",
    "ExtenderEntry",
    "GangsEntry",
    "LimitsEntry",
    "ManagedEntry",
    "ProfileEntry",
    "SchedulerFile",
]

Many = Annotated[int, Meta(ge=1, le=10_000)]
Weight = Annotated[int, Meta(ge=0, le=10_000)]


class ProfileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods that name this scheduler, and the policy that places them."""

    scheduler_name: Annotated[str, means("What pods have in spec.schedulerName.")] = DEFAULT_SCHEDULER_NAME
    policy: Annotated[
        str | PolicyEntry, means("A policy by its name, built in or under 'policies', or one written here.")
    ] = "kubernetes"


class ElectionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of several schedulers of the same name only the holder of a Lease binds."""

    enabled: Annotated[bool, means("False: it is never asked who may bind; for one process alone.")] = True
    namespace: Annotated[str, means("Where the Lease is.")] = "kube-system"
    name: Annotated[str, means("What the Lease is called.")] = DEFAULT_SCHEDULER_NAME
    lease: Annotated[str, means("How long others wait after the last renewal before they take over; 1s to 1h.")] = "15s"
    renew: Annotated[str, means("A holder that could not renew for so long stops writing; shorter than lease.")] = "10s"
    retry: Annotated[str, means("The pause between two tries; 1.2 times it is less than renew.")] = "2s"


class LimitsEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How hard the API server may be pressed, and how long is waited for it."""

    max_in_flight: Annotated[
        Many, means("How many binds may be under way at once; fewer while the server is slow.")
    ] = 64
    bind_timeout: Annotated[
        str | UnsetType,
        means("How long a bind may take; shorter than the lease less its renewal. 4s if unset, or less where needed."),
    ] = UNSET
    call_timeout: Annotated[str, means("How long any other call may take.")] = "30s"


class GangsEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What PodGroups do not say themselves."""

    when_broken: Annotated[
        Literal["keep", "prefer_repair", "release_after"],
        means("A running gang below its minimum: left alone, repaired before others are placed, or ended in time."),
    ] = "keep"
    release_after: Annotated[str, means("How long a broken gang is left to be repaired before it is ended.")] = "1m"
    head_of_line: Annotated[
        Literal["skip", "reserve"], means("A gang without room: others pass it, or it keeps what it waits for.")
    ] = "skip"


class ManagedEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource that an extender looks after."""

    name: Annotated[str, means("The resource's name.")]
    ignored_by_scheduler: Annotated[bool, means("True: only the extender counts it.")] = False


class ExtenderEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A service that is asked by HTTP about the nodes that fit, as kube-scheduler asks its extenders."""

    url_prefix: Annotated[str, means("Its address; verbs are appended to it.")]
    filter_verb: Annotated[str, means("The verb that drops nodes. Empty: not asked.")] = ""
    prioritize_verb: Annotated[str, means("The verb that scores nodes. Empty: not asked.")] = ""
    preempt_verb: Annotated[str, means("Known, and not asked: evictions are decided here.")] = ""
    bind_verb: Annotated[str, means("The verb that binds in our place. Empty: we bind. Only one extender has it.")] = ""
    weight: Annotated[Weight, means("What its scores are multiplied by.")] = 1
    timeout: Annotated[
        str | UnsetType,
        means("How long an answer may take. 5s if unset; shorter than the lease less its renewal where it binds."),
    ] = UNSET
    node_cache_capable: Annotated[bool, means("True: it is sent the names of nodes, not whole nodes.")] = False
    managed_resources: Annotated[
        list[str | ManagedEntry], means("It is asked only about pods that request one of these. Empty: about all.")
    ] = []
    ignorable: Annotated[bool, means("True: when it fails, decide without it. False: try again later.")] = False
    ca_file: Annotated[str, means("The authorities that its certificate is checked by. Empty: the system's.")] = ""
    cert_file: Annotated[str, means("The certificate that we show it.")] = ""
    key_file: Annotated[str, means("The key of that certificate.")] = ""
    server_name: Annotated[str, means("The name in its certificate, where it is not that of the address.")] = ""
    insecure: Annotated[bool, means("True: its certificate is not checked.")] = False


class SchedulerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How 'hostler kube schedule' places the pods of a cluster."""

    apiVersion: Annotated[Literal["hostler/v1"], means("The version of the format.")]
    kind: Annotated[Literal["Scheduler"], means("What the file holds.")]
    profiles: Annotated[
        list[ProfileEntry] | UnsetType,
        means(f"Which pods are placed by which policy. Unset: those of {DEFAULT_SCHEDULER_NAME}, by kubernetes."),
    ] = UNSET
    policies: Annotated[list[PolicyEntry], means("Policies of your own, beside the built-in ones.")] = []
    preemption: Annotated[
        PreemptionEntry | UnsetType | None,
        means("How pods of lower priority are evicted, for all profiles. Unset: as each policy says, else the usual "
        "rules. null: never."),
    ] = UNSET  # fmt: skip
    one_pod_per_node: Annotated[bool, means("True: a node takes one pod, whatever its size.")] = False
    queue: Annotated[QueueEntry, means("How often refused pods are tried again.")] = QueueEntry()
    election: Annotated[ElectionEntry, means("Who may bind, of several schedulers.")] = ElectionEntry()
    limits: Annotated[LimitsEntry, means("How the API server is treated.")] = LimitsEntry()
    gangs: Annotated[GangsEntry, means("Rules for all gangs.")] = GangsEntry()
    extenders: Annotated[list[ExtenderEntry], means("Who else is asked about nodes, in this order.")] = []
    seed_annotations: Annotated[
        bool, means("True: the annotations 'priority' and 'pod-group' count. Anyone can then promote himself.")
    ] = False
    listen: Annotated[str, means("Where probes, metrics and explanations are served. none, or empty: nowhere.")] = (
        "127.0.0.1:10359"
    )
    kubeconfig: Annotated[str, means("The cluster; a flag beats it. Empty: the usual places.")] = ""
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1), means("Where random choices between equal nodes come from.")] = 0
