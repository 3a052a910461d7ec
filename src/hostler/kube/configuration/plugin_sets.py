"""Which of kube-scheduler's plugins a profile enables, by its merge rules.

The defaults are at ``multiPoint``. A profile's own ``multiPoint`` replaces or disables some of them. A set at one
extension point takes precedence over ``multiPoint`` (kubernetes/kubernetes pkg/scheduler/apis/config/v1 and
framework/runtime).
"""

from __future__ import annotations

from typing import Final

from hostler.config import invalid, quote
from hostler.config.key_paths import Path
from hostler.kube.configuration.component_file import Plugins, PluginSet
from hostler.kube.configuration.problems import ConfigurationProblems

__all__ = ["KNOWN", "VOLUMES", "ActivePlugins"]

EVERYTHING: Final = "*"
# The default profile, with the weights of score plugins; a weight of 0 means 1.
DEFAULTS: Final = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
}
# Behind feature gates, or removed since; still in the tree of kube-scheduler.
_OTHERS: Final = ("GangScheduling", "EBSLimits", "GCEPDLimits", "AzureDiskLimits")
_NOT_DONE: Final = {
    "DynamicResources": "is not supported: pods with resource claims are unschedulable, with a reason",
    "NodeDeclaredFeatures": "is not supported: declared features of nodes are ignored",
    "DeferredPodScheduling": "is not supported: pods are not deferred",
    "TopologyPlacementGenerator": "is not needed: the engine chooses a gang's topology itself",
    "PodGroupPodsCount": "is not needed: the engine chooses a gang's topology itself",
}
KNOWN: Final = frozenset({*DEFAULTS, *_OTHERS, *_NOT_DONE})
VOLUMES: Final = frozenset(
    {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "EBSLimits", "GCEPDLimits"}
    | {"AzureDiskLimits"}
)
_FILTERS: Final = frozenset(
    {"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"}
    | {"PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"}
    | VOLUMES
)
_SCORERS: Final = frozenset(
    {"TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity"}
    | {"NodeResourcesBalancedAllocation", "ImageLocality", "DynamicResources", "VolumeBinding"}
)
_AT: Final = {"filter": _FILTERS, "score": _SCORERS, "postFilter": frozenset({"DefaultPreemption", "DynamicResources"})}
_FIELDS: Final = {
    "preEnqueue": "pre_enqueue",
    "queueSort": "queue_sort",
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "pre_score",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
    "placementGenerate": "placement_generate",
    "placementScore": "placement_score",
    "podGroupPostFilter": "pod_group_post_filter",
    "multiPoint": "multi_point",
}


class ActivePlugins:
    """The plugins of one profile."""

    def __init__(self, problems: ConfigurationProblems, path: Path, plugins: Plugins) -> None:
        self._problems = problems
        self._path = (*path, "plugins")
        self._sets: dict[str, PluginSet] = {point: getattr(plugins, name) for point, name in _FIELDS.items()}
        for point, one in self._sets.items():
            self._check(point, one)
        self._multi = self._merge_sets()

    def at(self, point: str) -> dict[str, int]:
        """Return the enabled plugins at an extension point, with their weights as written (0 means 1)."""
        own = self._sets[point]
        found = {plugin.name: plugin.weight for plugin in own.enabled if plugin.name in KNOWN}
        off = {plugin.name for plugin in own.disabled}
        if EVERYTHING not in off:
            for name, weight in self._multi.items():
                if name in _AT[point] and name not in off:
                    found.setdefault(name, weight)
        return found

    def turned_off_at(self, point: str, name: str) -> Path:
        """Return the place in the file that disables a plugin at an extension point."""
        for place in (point, "multiPoint"):
            for index, plugin in enumerate(self._sets[place].disabled):
                if plugin.name in (name, EVERYTHING):
                    return (*self._path, place, "disabled", index)
        return self._path

    def _merge_sets(self) -> dict[str, int]:
        own = self._sets["multiPoint"]
        off = {plugin.name for plugin in own.disabled}
        found = {} if EVERYTHING in off else {name: w for name, w in DEFAULTS.items() if name not in off}
        return found | {plugin.name: plugin.weight for plugin in own.enabled if plugin.name in KNOWN}

    def _check(self, point: str, one: PluginSet) -> None:
        """Reject what kube-scheduler rejects, and out-of-tree plugins: Hostler has no counterpart of them."""
        problems, path = self._problems, (*self._path, point)
        seen: set[str] = set()
        for index, plugin in enumerate(one.enabled):
            where: Path = (*path, "enabled", index, "name")
            if plugin.name in seen:
                raise invalid(problems.document, where, f"is {quote(plugin.name)} again", hint="keep one of them")
            seen.add(plugin.name)
            if plugin.name not in KNOWN:
                hint = "take it out; placements then differ from before"
                problems.reject(where, f"is {quote(plugin.name)}, an unknown plugin", hint=hint)
            elif point in _AT and plugin.name not in _AT[point]:
                raise invalid(problems.document, where, f"is {quote(plugin.name)}, which does nothing at {point}")
            elif plugin.name in _NOT_DONE:
                problems.note(where, f"is {quote(plugin.name)}, which {_NOT_DONE[plugin.name]}")
        for index, plugin in enumerate(one.disabled):
            where = (*path, "disabled", index)
            if point not in _AT and point != "multiPoint":
                problems.note(where, "is ignored: only filter, score and postFilter enable plugins here")
            elif plugin.name not in KNOWN and plugin.name != EVERYTHING:
                problems.note(where, f"names {quote(plugin.name)}, which is not enabled")
