"""The structs that describe a file of kind ``Load``, key by key; unknown keys are rejected.

The JSON schema is made from them, so their docstrings and descriptions are for users.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config import means
from hostler.kube.settings import DEFAULT_SCHEDULER_NAME

__all__ = ["LoadChurn", "LoadFile", "LoadGangs", "LoadNodes", "LoadPods"]

Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Size = Annotated[int, Meta(ge=1, le=10_000)]
Rate = Annotated[float, Meta(ge=0, le=100_000)]
Template = dict[str, Any]

_TEMPLATE = "Fields that override the defaults: metadata (labels, annotations), spec"


class LoadNodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes without machines; kwok may simulate them."""

    count: Annotated[Count, means("How many.")]
    template: Annotated[
        Template, means(f"{_TEMPLATE}, status. Ours: 8 CPUs, 32 GiB, 110 pods, three zones in turn.")
    ] = {}


class LoadPods(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods that stay."""

    count: Annotated[Count, means("How many.")]
    rate: Annotated[Rate, means("Rate per second. 0: as fast as the server accepts them.")] = 0.0
    template: Annotated[Template, means(f"{_TEMPLATE}. Ours: one container, 100m of CPU and 128 MiB.")] = {}


class LoadGangs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Groups of pods that are placed together or not at all."""

    count: Annotated[Count, means("The number of groups.")]
    size: Annotated[Size, means("The number of pods of each.")]
    min: Annotated[Size | UnsetType, means("How many of them must fit together. Unset: all.")] = UNSET
    rate: Annotated[Rate, means("Groups per second. 0: as fast as the server accepts them.")] = 0.0
    api: Annotated[
        Literal["auto", "built-in", "crd"],
        means("The API group of PodGroup: scheduling.k8s.io, scheduling.x-k8s.io, or the first that the server has."),
    ] = "auto"
    template: Annotated[Template, means(f"{_TEMPLATE}; of the pods.")] = {}


class LoadChurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods that are created and deleted throughout the load."""

    rate: Annotated[float, Meta(gt=0, le=100_000), means("Pods created per second.")]
    lifetime: Annotated[str, means("Lifetime of each.")] = "30s"
    template: Annotated[Template, means(f"{_TEMPLATE}.")] = {}


class LoadFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What 'hostler kube load' creates on a cluster."""

    api_version: Annotated[Literal["hostler/v1"], means("The version of the format.")] = msgspec.field(
        name="apiVersion"
    )
    kind: Annotated[Literal["Load"], means("The kind of the file.")]
    name: Annotated[str, means("The prefix of all names, and the value of the label hostler.dev/load.")] = "load"
    namespace: Annotated[str, means("The namespace of pods and groups; it must exist.")] = "default"
    scheduler_name: Annotated[str, means("What pods have in spec.schedulerName.")] = DEFAULT_SCHEDULER_NAME
    nodes: Annotated[LoadNodes | UnsetType, means("Created first. Unset: none.")] = UNSET
    pods: Annotated[LoadPods | UnsetType, means("Unset: none.")] = UNSET
    gangs: Annotated[LoadGangs | UnsetType, means("Unset: none.")] = UNSET
    churn: Annotated[LoadChurn | UnsetType, means("Unset: none.")] = UNSET
