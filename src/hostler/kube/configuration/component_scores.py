"""Scores of a KubeSchedulerConfiguration's profile as scorers of ours, with the same arguments."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence

from hostler.config import Document, invalid
from hostler.config.wording import Path
from hostler.kube.configuration.component_args import (
    BalancedArgs,
    FitArgs,
    InterPodAffinityArgs,
    SpreadArgs,
    WeightedResource,
)
from hostler.kube.configuration.problems import Problems
from hostler.model import ScorerUse

__all__ = ["ScoreArguments"]

_MAX_RESOURCES = 8
_MAX_POINTS = 11
# kube-scheduler's system defaults.
_SYSTEM_DEFAULTS = (
    {"topology": "kubernetes.io/hostname", "max_skew": 3, "is_hard": False},
    {"topology": "topology.kubernetes.io/zone", "max_skew": 5, "is_hard": False},
)
_NO_ARGUMENTS = {
    "TaintToleration": ("preferred_taints", '{"always":true}'),
    "NodeAffinity": ("preferred_hosts", ""),
    "InterPodAffinity": ("near_guests", ""),
    "ImageLocality": ("image_locality", ""),
}
# In the order of the built-in policy, so that an untouched profile equals it.
_ORDER = (
    "TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity",
    "NodeResourcesBalancedAllocation", "ImageLocality",
)  # fmt: skip
_STRATEGIES = {
    "LeastAllocated": "least_allocated",
    "MostAllocated": "most_allocated",
    "RequestedToCapacityRatio": "capacity_ratio",
}


class ScoreArguments:
    """What the plugins of one profile are told, and the scorers that come of it."""

    def __init__(self, problems: Problems, fit: FitArgs, balanced: BalancedArgs, spread: SpreadArgs) -> None:
        self.problems = problems
        self.fit = fit
        self.balanced = balanced
        self.spread = spread
        self.paths: dict[str, Path] = {}  # where each plugin's arguments stand
        self.affinity = InterPodAffinityArgs()

    @property
    def document(self) -> Document:
        """Return the document that is read."""
        return self.problems.document

    def scorers(self, active: Mapping[str, int]) -> tuple[ScorerUse, ...]:
        """Return the scorers of these plugins with their weights, and tell of what cannot be scored."""
        if "InterPodAffinity" in active:
            self._check_affinity()
        return tuple(self._scorer(name, active[name] or 1) for name in _ORDER if name in active)

    def _scorer(self, name: str, weight: int) -> ScorerUse:
        if name in _NO_ARGUMENTS:
            ours, args = _NO_ARGUMENTS[name]
            return ScorerUse(ours, weight, args, name)
        if name == "NodeResourcesFit":
            return ScorerUse(_STRATEGIES[self.fit.scoring_strategy.type], weight, self._fit(), name)
        if name == "NodeResourcesBalancedAllocation":
            path = (*self.paths.get(name, ()), "resources")
            for index, one in enumerate(self.balanced.resources):
                if one.weight > 1:
                    raise invalid(self.document, (*path, index, "weight"), "must be 1", hint="all weigh the same here")
            return ScorerUse("balanced", weight, _text(self._resources(self.balanced.resources, path)), name)
        return ScorerUse("even_spread", weight, self._spread(), name)

    def _fit(self) -> str:
        path = (*self.paths.get("NodeResourcesFit", ()), "scoringStrategy")
        strategy = self.fit.scoring_strategy
        found = self._resources(strategy.resources, (*path, "resources"))
        if strategy.type != "RequestedToCapacityRatio":
            return _text(found)
        shape = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else ()
        path = (*path, "requestedToCapacityRatio", "shape")
        if not 1 <= len(shape) <= _MAX_POINTS:
            raise invalid(self.document, path, f"must have 1 to {_MAX_POINTS} points", hint="add some points")
        if any(one.utilization <= before.utilization for before, one in itertools.pairwise(shape)):
            raise invalid(self.document, path, "must ascend in utilization", hint="sort the points")
        return _text({**found, "points": [[point.utilization, point.score] for point in shape]})

    def _resources(self, resources: Sequence[WeightedResource], path: Path) -> dict[str, object]:
        if not resources:
            return {}
        names = [one.name for one in resources]
        if len(set(names)) < len(names):
            raise invalid(self.document, path, "names a resource twice", hint="keep one of them")
        if len(names) > _MAX_RESOURCES:
            raise invalid(self.document, path, f"has more than {_MAX_RESOURCES} resources", hint="drop some")
        found = {one.name: one.weight or 1 for one in resources}
        return {} if found == {"cpu": 1, "memory": 1} else {"resources": found}

    def _spread(self) -> str:
        if self.spread.defaulting_type == "System":
            return _text({"defaults": list(_SYSTEM_DEFAULTS)})
        defaults: list[dict[str, object]] = []
        for one in self.spread.default_constraints:
            entry: dict[str, object] = {
                "topology": one.topology_key,
                "max_skew": one.max_skew,
                "is_hard": one.when_unsatisfiable == "DoNotSchedule",
            }
            if one.min_domains is not None:
                entry["min_domains"] = one.min_domains
            if one.node_affinity_policy == "Ignore":
                entry["honor_affinity"] = False
            if one.node_taints_policy == "Honor":
                entry["honor_taints"] = True
            defaults.append(entry)
        return _text({"defaults": defaults}) if defaults else ""

    def check_spread(self, *, is_scored: bool, is_filtered: bool) -> None:
        """Refuse default constraints that kube-scheduler refuses, and those that would have no effect here."""
        path = (*self.paths.get("PodTopologySpread", ()), "defaultConstraints")
        constraints = self.spread.default_constraints
        if self.spread.defaulting_type == "System":
            if constraints:
                raise invalid(self.document, path, "count only with defaultingType: List", hint="add defaultingType")
            return
        seen: set[tuple[str, str]] = set()
        for index, one in enumerate(constraints):
            is_hard = one.when_unsatisfiable == "DoNotSchedule"
            if (one.topology_key, one.when_unsatisfiable) in seen:
                raise invalid(self.document, (*path, index), "stands twice", hint="keep one of them")
            seen.add((one.topology_key, one.when_unsatisfiable))
            if one.min_domains is not None and not is_hard:
                raise invalid(self.document, (*path, index, "minDomains"), "needs whenUnsatisfiable: DoNotSchedule")
            if is_hard and is_filtered and not is_scored:
                text = "has no effect while PodTopologySpread is off at score: defaults are kept there"
                self.problems.refuse((*path, index), text, hint="leave it on at score")
            if not is_hard and is_scored:
                text = "scores nodes that lack the label of another default by the labels they have"
                self.problems.note((*path, index), text)

    def _check_affinity(self) -> None:
        path = self.paths.get("InterPodAffinity", ())
        if self.affinity.hard_pod_affinity_weight != 1:
            text = f"is {self.affinity.hard_pod_affinity_weight}; here it is always 1"
            self.problems.refuse((*path, "hardPodAffinityWeight"), text, hint="leave it out")
        if self.affinity.ignore_preferred_terms_of_existing_pods:
            text = "is true; here preferences of existing pods always count"
            self.problems.refuse((*path, "ignorePreferredTermsOfExistingPods"), text, hint="leave it out")


def _text(args: Mapping[str, object]) -> str:
    return json.dumps(args, separators=(",", ":"), ensure_ascii=False) if args else ""
