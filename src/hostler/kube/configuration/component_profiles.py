"""Convert a profile of a KubeSchedulerConfiguration to a policy.

Its score plugins become scorers with the same arguments.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from hostler.config import Document, did_you_mean, invalid, quote
from hostler.config.key_paths import Path
from hostler.kube.configuration.component_args import (
    Args,
    BalancedArgs,
    FitArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    PreemptionArgs,
    ShapePoint,
    SpreadArgs,
    VolumeBindingArgs,
    WeightedResource,
    read_args,
)
from hostler.kube.configuration.component_file import ComponentProfile
from hostler.kube.configuration.plugin_sets import KNOWN, VOLUMES, ActivePlugins
from hostler.kube.configuration.problems import ConfigurationProblems
from hostler.model import PluginUse, Policy, PreemptionRules, ScorerUse
from hostler.model.policies import DEFAULT_FILTERS

__all__ = ["ReadProfile", "read_profile"]

# Plugins that can be disabled, and our filters that replace them.
_FILTERS = {
    "NodeUnschedulable": "cordon",
    "NodeName": "host_name",
    "TaintToleration": "taints",
    "NodeAffinity": "host_affinity",
    "NodePorts": "ports",
    "PodTopologySpread": "spread",
    "InterPodAffinity": "guest_affinity",
}
_ROOM = "NodeResourcesFit"
_USUAL_SHAPE = (ShapePoint(0, 10), ShapePoint(100, 0))
_CANDIDATES = "is ignored: all nodes are evaluated"

A = TypeVar("A", bound=Args)
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


class ReadProfile(msgspec.Struct, frozen=True):
    """The result of reading a profile."""

    policy: Policy
    prepare_timeout_s: int


def read_profile(problems: ConfigurationProblems, path: Path, profile: ComponentProfile) -> ReadProfile:
    """Return the policy that places a profile's pods; it is named like its scheduler."""
    if profile.percentage_of_nodes_to_score not in (None, 100):
        problems.note((*path, "percentageOfNodesToScore"), _CANDIDATES)
    active = ActivePlugins(problems, path, profile.plugins)
    arguments = _Arguments(problems, path, profile)
    filters, scores = active.at("filter"), active.at("score")
    if filters.keys() | scores.keys() >= {"NodeAffinity"} and arguments.node_affinity.added_affinity:
        where = (*arguments.paths["NodeAffinity"], "addedAffinity")
        hint = "set it in the pods, or by an admission policy"
        problems.reject(where, "is not supported", hint=hint)
    scoring = ScoreArguments(problems, arguments.fit, arguments.balanced, arguments.spread)
    scoring.affinity = arguments.affinity
    scoring.paths = arguments.paths
    scoring.check_spread(is_scored="PodTopologySpread" in scores, is_filtered="PodTopologySpread" in filters)
    policy = Policy(
        name=profile.scheduler_name,
        summary="as a KubeSchedulerConfiguration says",
        filters=_filters(problems, active, filters),
        scorers=scoring.scorers(scores),
        ties=("random", "name"),
        preemption=PreemptionRules() if "DefaultPreemption" in active.at("postFilter") else None,
    )
    return ReadProfile(policy, arguments.volumes.bind_timeout_seconds)


def _filters(problems: ConfigurationProblems, active: ActivePlugins, found: dict[str, int]) -> tuple[PluginUse, ...]:
    """Return the filters of Hostler without the disabled ones."""
    if _ROOM not in found:
        where = active.turned_off_at("filter", _ROOM)
        problems.reject(where, f"disables {_ROOM}; Hostler always checks room", hint="leave it on")
    for name in sorted(VOLUMES & {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}):
        if name not in found:
            where = active.turned_off_at("filter", name)
            problems.note(where, f"disables {name}; Hostler always checks volumes")
    gone = {ours for name, ours in _FILTERS.items() if name not in found}
    return tuple(PluginUse(name) for name in DEFAULT_FILTERS if name not in gone)


class _Arguments:
    """The arguments of a profile's plugins."""

    def __init__(self, problems: ConfigurationProblems, path: Path, profile: ComponentProfile) -> None:
        self._problems = problems
        self._data: dict[str, dict[str, object]] = {}
        self.paths: dict[str, Path] = {}
        for index, config in enumerate(profile.plugin_config):
            where: Path = (*path, "pluginConfig", index)
            if config.name in self.paths:
                raise invalid(problems.document, where, f"is for {quote(config.name)} again", hint="keep one of them")
            self.paths[config.name] = (*where, "args")
            self._data[config.name] = config.args
        self.fit = self._take(_ROOM, FitArgs)
        self.balanced = self._take("NodeResourcesBalancedAllocation", BalancedArgs)
        self.spread = self._take("PodTopologySpread", SpreadArgs)
        self.affinity = self._take("InterPodAffinity", InterPodAffinityArgs)
        self.node_affinity = self._take("NodeAffinity", NodeAffinityArgs)
        self.volumes = self._take("VolumeBinding", VolumeBindingArgs)
        self._tell()

    def _take(self, plugin: str, into: type[A]) -> A:
        data = self._data.pop(plugin, {})
        return read_args(self._problems.document, self.paths.get(plugin, ()), plugin, data, into)

    def _tell(self) -> None:
        problems = self._problems
        for key, value in (
            ("ignoredResources", self.fit.ignored_resources),
            ("ignoredResourceGroups", self.fit.ignored_resource_groups),
        ):
            if value:
                text = "is not supported: every requested resource is counted"
                problems.reject((*self.paths[_ROOM], key), text, hint="take the requests out of the pods")
        if self.volumes.shape and self.volumes.shape != _USUAL_SHAPE:
            problems.note((*self.paths["VolumeBinding"], "shape"), "is ignored: volumes are not scored")
        preemption = self._take("DefaultPreemption", PreemptionArgs)
        for key, number, usual in (
            ("minCandidateNodesPercentage", preemption.min_candidate_nodes_percentage, 10),
            ("minCandidateNodesAbsolute", preemption.min_candidate_nodes_absolute, 100),
        ):
            if number not in (None, usual):
                problems.note((*self.paths["DefaultPreemption"], key), _CANDIDATES)
        for name in self._data:  # the remaining ones
            where = self.paths[name][:-1]
            if name in KNOWN:
                problems.note(where, f"is ignored: {name} has no arguments here")
            else:
                text = f"is for {quote(name)}, an unknown plugin"
                problems.reject(where, text, hint=did_you_mean(name, KNOWN))


class ScoreArguments:
    """The arguments of the score plugins of one profile, and the scorers made from them."""

    def __init__(
        self, problems: ConfigurationProblems, fit: FitArgs, balanced: BalancedArgs, spread: SpreadArgs
    ) -> None:
        self.problems = problems
        self.fit = fit
        self.balanced = balanced
        self.spread = spread
        self.paths: dict[str, Path] = {}  # the place of each plugin's arguments
        self.affinity = InterPodAffinityArgs()

    @property
    def document(self) -> Document:
        """Return the document that is being read."""
        return self.problems.document

    def scorers(self, active: Mapping[str, int]) -> tuple[ScorerUse, ...]:
        """Return the scorers of these plugins with their weights; report plugins that cannot be mapped."""
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
                    raise invalid(
                        self.document, (*path, index, "weight"), "must be 1", hint="Hostler weighs all the same"
                    )
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
        """Reject default constraints that kube-scheduler rejects, and those without an effect here."""
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
                raise invalid(self.document, (*path, index), "appears twice", hint="keep one of them")
            seen.add((one.topology_key, one.when_unsatisfiable))
            if one.min_domains is not None and not is_hard:
                raise invalid(self.document, (*path, index, "minDomains"), "needs whenUnsatisfiable: DoNotSchedule")
            if is_hard and is_filtered and not is_scored:
                text = "has no effect while PodTopologySpread is off at score: defaults are kept there"
                self.problems.reject((*path, index), text, hint="leave it on at score")
            if not is_hard and is_scored:
                text = "scores nodes that lack the label of another default by the labels they have"
                self.problems.note((*path, index), text)

    def _check_affinity(self) -> None:
        path = self.paths.get("InterPodAffinity", ())
        if self.affinity.hard_pod_affinity_weight != 1:
            text = f"is {self.affinity.hard_pod_affinity_weight}; here it is always 1"
            self.problems.reject((*path, "hardPodAffinityWeight"), text, hint="leave it out")
        if self.affinity.ignore_preferred_terms_of_existing_pods:
            text = "is true; here preferences of existing pods always count"
            self.problems.reject((*path, "ignorePreferredTermsOfExistingPods"), text, hint="leave it out")


def _text(args: Mapping[str, object]) -> str:
    return json.dumps(args, separators=(",", ":"), ensure_ascii=False) if args else ""
