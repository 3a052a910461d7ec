"""Arguments of kube-scheduler's plugins (kubescheduler.config.k8s.io/v1), key by key. Unknown keys are rejected."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from hostler.config import Document, convert, invalid, quote
from hostler.config.key_paths import Path
from hostler.kube.configuration.component_file import ComponentPart

__all__ = [
    "BalancedArgs", "FitArgs", "InterPodAffinityArgs", "NodeAffinityArgs", "PreemptionArgs", "ShapePoint", "SpreadArgs",
    "VolumeBindingArgs", "WeightedResource", "read_args",
]  # fmt: skip

Weight = Annotated[int, Meta(ge=0, le=100)]


class Args(ComponentPart, frozen=True):
    """Base of all arguments; they may name their kind."""

    api_version: str = ""
    kind: str = ""


class WeightedResource(ComponentPart, frozen=True):
    """A resource and its weight; 0 means 1."""

    name: Annotated[str, Meta(min_length=1)]
    weight: Weight = 1


class ShapePoint(ComponentPart, frozen=True):
    """A point of the scoring function over a node's utilization."""

    utilization: Annotated[int, Meta(ge=0, le=100)]
    score: Annotated[int, Meta(ge=0, le=10)]


class RatioParameters(ComponentPart, frozen=True):
    """The scoring function of RequestedToCapacityRatio."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(ComponentPart, frozen=True):
    """How NodeResourcesFit scores."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[WeightedResource, ...] = ()
    requested_to_capacity_ratio: RatioParameters | None = None


class FitArgs(Args, frozen=True):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class BalancedArgs(Args, frozen=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[WeightedResource, ...] = ()


class NodeAffinityArgs(Args, frozen=True):
    """Arguments of NodeAffinity."""

    added_affinity: dict[str, object] | None = None


class DefaultConstraint(ComponentPart, frozen=True):
    """A spread constraint for pods without their own. It has no selector: pods of one owner are spread."""

    max_skew: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    topology_key: Annotated[str, Meta(min_length=1)]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"


class SpreadArgs(Args, frozen=True):
    """Arguments of PodTopologySpread."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"


class InterPodAffinityArgs(Args, frozen=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Weight = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class PreemptionArgs(Args, frozen=True):
    """Arguments of DefaultPreemption."""

    min_candidate_nodes_percentage: Annotated[int, Meta(ge=0, le=100)] | None = None
    min_candidate_nodes_absolute: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class VolumeBindingArgs(Args, frozen=True):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: Annotated[int, Meta(ge=0, le=10**9)] = 600
    shape: tuple[ShapePoint, ...] = ()


A = TypeVar("A", bound=Args)


def read_args(document: Document, path: Path, plugin: str, data: dict[str, object], into: type[A]) -> A:
    """Read a plugin's arguments. If they name a kind, it must be that plugin's."""
    found = convert(document, data, into, path)
    if found.kind not in ("", f"{plugin}Args"):
        raise invalid(document, (*path, "kind"), f"is {quote(found.kind)}", hint=f"write {plugin}Args")
    return found
