"""A profile of a KubeSchedulerConfiguration to a policy of ours."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from hostler.config import did_you_mean, invalid, quote
from hostler.config.wording import Path
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
    read_args,
)
from hostler.kube.configuration.component_file import ComponentProfile
from hostler.kube.configuration.component_scores import ScoreArguments
from hostler.kube.configuration.plugin_sets import KNOWN, VOLUMES, ActivePlugins
from hostler.kube.configuration.problems import Problems
from hostler.model import PluginUse, Policy, PreemptionRules
from hostler.model.policies import DEFAULT_FILTERS

__all__ = ["ReadProfile", "read_profile"]

# Filters that can be turned off, and ours that do their work.
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
_CANDIDATES = "does not count: all nodes are looked at"

A = TypeVar("A", bound=Args)


class ReadProfile(msgspec.Struct, frozen=True):
    """What came of a profile."""

    policy: Policy
    prepare_timeout_s: int


def read_profile(problems: Problems, path: Path, profile: ComponentProfile) -> ReadProfile:
    """Return the policy that places a profile's pods, called like its scheduler."""
    if profile.percentage_of_nodes_to_score not in (None, 100):
        problems.note((*path, "percentageOfNodesToScore"), _CANDIDATES)
    active = ActivePlugins(problems, path, profile.plugins)
    arguments = _Arguments(problems, path, profile)
    filters, scores = active.at("filter"), active.at("score")
    if filters.keys() | scores.keys() >= {"NodeAffinity"} and arguments.node_affinity.added_affinity:
        where = (*arguments.paths["NodeAffinity"], "addedAffinity")
        hint = "write it into the pods, or as an admission policy"
        problems.refuse(where, "is not added here", hint=hint)
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


def _filters(problems: Problems, active: ActivePlugins, found: dict[str, int]) -> tuple[PluginUse, ...]:
    """Return our filters without those that are turned off."""
    if _ROOM not in found:
        where = active.turned_off_at("filter", _ROOM)
        problems.refuse(where, f"turns {_ROOM} off; room is always checked here", hint="leave it on")
    for name in sorted(VOLUMES & {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}):
        if name not in found:
            where = active.turned_off_at("filter", name)
            problems.note(where, f"turns {name} off; volumes are always looked at here")
    gone = {ours for name, ours in _FILTERS.items() if name not in found}
    return tuple(PluginUse(name) for name in DEFAULT_FILTERS if name not in gone)


class _Arguments:
    """The arguments of a profile's plugins."""

    def __init__(self, problems: Problems, path: Path, profile: ComponentProfile) -> None:
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
                text = "is not done: every resource that a pod requests is counted here"
                problems.refuse((*self.paths[_ROOM], key), text, hint="take the requests out of the pods")
        if self.volumes.shape and self.volumes.shape != _USUAL_SHAPE:
            problems.note((*self.paths["VolumeBinding"], "shape"), "does not count: volumes are not scored here")
        preemption = self._take("DefaultPreemption", PreemptionArgs)
        for key, number, usual in (
            ("minCandidateNodesPercentage", preemption.min_candidate_nodes_percentage, 10),
            ("minCandidateNodesAbsolute", preemption.min_candidate_nodes_absolute, 100),
        ):
            if number not in (None, usual):
                problems.note((*self.paths["DefaultPreemption"], key), _CANDIDATES)
        for name in self._data:  # what is left
            where = self.paths[name][:-1]
            if name in KNOWN:
                problems.note(where, f"does not count: {name} takes no arguments here")
            else:
                text = f"is for {quote(name)}, a plugin that does not exist here"
                problems.refuse(where, text, hint=did_you_mean(name, KNOWN))
