"""The scheduler configuration of ``simon apply``: a KubeSchedulerConfiguration to one policy of ours.

Score plugins of ``simon``, and the stock ones that stay on unless they are turned off, become scorers of ours.
``RLSchedulerScore`` is a service: the policy asks it about every pod, and its scores count beside the others by its
weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import msgspec

from hostler.config import Document, did_you_mean, invalid, quote
from hostler.config.key_paths import Path
from hostler.errors import InputError
from hostler.model import AskUse, MixEntry, PluginUse, Policy, ScorerUse
from hostler.model.policies import DEFAULT_FILTERS, DeviceRule
from hostler.sim.simon.keys import SimonStruct, WarningSink, only_document, read_struct

__all__ = ["GPU_SHARE", "RANDOM", "SchedulerConfig", "WeightedPlugin", "read_scheduler_config"]
__all__ += ["scorers_of", "with_typical"]

GPU_SHARE = "Open-Gpu-Share"
RANDOM = "RandomScore"
_EVERYTHING = "*"
_SERVICE = "RLSchedulerScore"

_OURS = {
    "BestFitScore": "gpu_best_fit",
    "DotProductScore": "dot_product",
    "GpuClusteringScore": "gpu_clustering",
    "GpuPackingScore": "gpu_packing",
    "FGDScore": "fgd",
}
# Their scores come from a PreScore; without it every pod fails ("not found" in the cycle's state).
_NEED_PRE_SCORE = (RANDOM, _SERVICE)

# The stock plugins of kube-scheduler 1.20 with their weights; ours score as newer releases do.
_STOCK = {
    "NodeResourcesBalancedAllocation": ("balanced", 1, ""),
    "ImageLocality": ("image_locality", 1, ""),
    "InterPodAffinity": ("near_guests", 1, ""),
    "NodeResourcesLeastAllocated": ("least_allocated", 1, ""),
    "NodeAffinity": ("preferred_hosts", 1, ""),
    "PodTopologySpread": ("even_spread", 2, ""),
    "TaintToleration": ("preferred_taints", 1, '{"always":true}'),
    "NodeResourcesMostAllocated": ("most_allocated", 0, ""),  # off unless enabled
}
_SAME_FOR_ALL = ("NodePreferAvoidPods",)  # reads an annotation of nodes that no program writes any more

_DIMENSIONS = ("merge", "share", "divide", "extend")
_NORMS = ("max", "node", "pod")


class WeightedPlugin(NamedTuple):
    """A plugin that is enabled, and its weight."""

    name: str
    weight: int


class SchedulerConfig(NamedTuple):
    """What a file says: the policy, and where the service is that it asks ("": the file does not say)."""

    policy: Policy
    endpoint: str = ""


def scorers_of(
    document: Document,
    enabled: Sequence[WeightedPlugin],
    disabled: Set[str],
    pre_score: Set[str],
    arguments: Mapping[str, Mapping[str, object]],
    warn: WarningSink,
) -> tuple[ScorerUse, ...]:
    """Return the scorers of a profile; none at all means a random host."""
    path: Path = ("profiles", 0, "plugins", "score", "enabled")
    names = [use.name for use in enabled]
    scorers: list[ScorerUse] = []
    for at, use in enumerate(enabled):
        where: Path = (*path, at)
        if names.count(use.name) > 1:
            raise invalid(document, where, f"names {use.name!r} twice", hint="keep one of them")
        if use.weight < 0:
            raise invalid(document, (*where, "weight"), "is negative", hint="a weight is 0 (which means 1) or more")
        _check_pre_score(document, where, use.name, pre_score)
        if use.name in _SAME_FOR_ALL or use.name in (RANDOM, _SERVICE):
            continue
        scorers.append(_scorer(document, where, use, arguments.get(use.name, {})))
    stock = _still_on(names, disabled)
    if stock:
        warn(f"{document.where(path)}: {', '.join(stock)} are not disabled under score, so they count too, as there")
    scorers += (ScorerUse(_STOCK[name][0], _STOCK[name][1], _STOCK[name][2], name) for name in stock)
    if RANDOM in names and (scorers or _SERVICE in names):
        raise invalid(
            document,
            path,
            "has RandomScore beside others, which is not supported here",
            hint="disable the other score plugins, the stock ones too",
        )
    if not names and not scorers:
        raise invalid(document, path, "is empty", hint=f"enable one of {', '.join((RANDOM, *_OURS, _SERVICE))}")
    return tuple(scorers)


def _still_on(enabled: Sequence[str], disabled: Set[str]) -> list[str]:
    """Return the stock plugins that are not disabled: the sets of a file merge with the defaults."""
    if _EVERYTHING in disabled:
        return []
    return [name for name, (_, weight, _) in _STOCK.items() if weight and name not in {*disabled, *enabled}]


def _scorer(document: Document, where: Path, use: WeightedPlugin, arguments: Mapping[str, object]) -> ScorerUse:
    weight = use.weight or 1
    if use.name in _STOCK:
        name, _, args = _STOCK[use.name]
        return ScorerUse(name, weight, args, use.name)
    if use.name not in _OURS:
        known = (RANDOM, *_OURS, _SERVICE, *_STOCK)
        raise invalid(
            document,
            (*where, "name"),
            f"is {use.name[:60]!r}, a score plugin that is not supported here",
            hint=did_you_mean(use.name, known),
        )
    dimensions, norm = (
        arguments.get(key) or usual for key, usual in (("dimExtMethod", "merge"), ("normMethod", "max"))
    )
    for key, value, choices in (("dimExtMethod", dimensions, _DIMENSIONS), ("normMethod", norm, _NORMS)):
        if value not in choices:
            raise invalid(
                document,
                where,
                f"has the {key} {str(value)[:60]!r}, which does not exist",
                hint=f"one of {', '.join(choices)}",
            )
    if use.name == "DotProductScore" and (dimensions, norm) != ("merge", "max"):
        raise invalid(
            document,
            where,
            f"is DotProductScore with dimExtMethod {dimensions} and normMethod {norm}",
            hint="only merge with max, the published combination, is supported here",
        )
    return ScorerUse(_OURS[use.name], weight, "", use.name)


def _check_pre_score(document: Document, where: Path, name: str, pre_score: Set[str]) -> None:
    if name in _NEED_PRE_SCORE and name not in pre_score:
        raise invalid(
            document,
            where,
            f"is {name}, which is not enabled under preScore: no pod would be placed",
            hint=f"add plugins.preScore.enabled: [{{name: {name}}}]",
        )


def _ask(enabled: Sequence[WeightedPlugin]) -> AskUse | None:
    """Return the question to the service, if it is enabled."""
    weights = [plugin.weight or 1 for plugin in enabled if plugin.name == _SERVICE]
    return AskUse(name=_SERVICE, weight=weights[0]) if weights else None


def _endpoint(document: Document, configs: Sequence[_PluginConfig]) -> str:
    """Return the address of the service, as the arguments of its plugin say."""
    for at, config in enumerate(configs):
        endpoint = config.args.get("endpoint", "") if config.name == _SERVICE else ""
        if not isinstance(endpoint, str):
            raise invalid(
                document,
                ("profiles", 0, "pluginConfig", at, "args", "endpoint"),
                f"is {str(endpoint)[:60]!r}, not an address",
                hint="for example http://127.0.0.1:5000/score",
            )
        if endpoint:
            return endpoint
    return ""


VERSION = "kubescheduler.config.k8s.io/v1beta1"
_NO_MATTER: tuple[str, ...] = (
    "leaderElection",
    "clientConnection",
    "healthzBindAddress",
    "metricsBindAddress",
    "parallelism",
)
_NO_MATTER += ("podInitialBackoffSeconds", "podMaxBackoffSeconds", "enableProfiling", "enableContentionProfiling")

# How a gpu is chosen for a share; by the names that simon registers.
_DEVICE_RULES: Mapping[str, DeviceRule] = {"best": "best", "worst": "worst", "random": "random", "FGDScore": "fgd"}
_NOT_HERE = ("DotProductScore",)

# Stock filters that may be turned off, and ours that do their work; those of volumes have nothing to look at here.
_FILTERS = {
    "NodeUnschedulable": "cordon",
    "NodeName": "host_name",
    "TaintToleration": "taints",
    "NodeAffinity": "host_affinity",
    "NodePorts": "ports",
    "PodTopologySpread": "spread",
    "InterPodAffinity": "guest_affinity",
}
_ARGUMENTS = ("dimExtMethod", "normMethod", "gpuSelMethod")
_ARGUMENTS_OF = {GPU_SHARE: _ARGUMENTS, _SERVICE: ("endpoint",)}  # the others take the first two


class _Plugin(SimonStruct, frozen=True):
    name: str
    weight: int = 0


class _Set(SimonStruct, frozen=True):
    enabled: tuple[_Plugin, ...] = ()
    disabled: tuple[_Plugin, ...] = ()


class _Plugins(SimonStruct, frozen=True):
    queue_sort: _Set = _Set()
    pre_filter: _Set = _Set()
    filter: _Set = _Set()
    post_filter: _Set = _Set()
    pre_score: _Set = _Set()
    score: _Set = _Set()
    reserve: _Set = _Set()
    permit: _Set = _Set()
    pre_bind: _Set = _Set()
    bind: _Set = _Set()
    post_bind: _Set = _Set()


class _PluginConfig(SimonStruct, frozen=True):
    name: str
    args: dict[str, object] = msgspec.field(default_factory=dict)


class _Profile(SimonStruct, frozen=True):
    scheduler_name: str = "simon-scheduler"
    plugins: _Plugins = _Plugins()
    plugin_config: tuple[_PluginConfig, ...] = ()


class _File(SimonStruct, frozen=True):
    api_version: str
    kind: str
    percentage_of_nodes_to_score: int = 0
    profiles: tuple[_Profile, ...] = ()
    extenders: tuple[object, ...] = ()


def read_scheduler_config(file: str, warn: WarningSink) -> SchedulerConfig:
    """Read a scheduler configuration; ``warn`` gets a line for all that does not count.

    The policy has no typical mix yet.
    """
    document, data = only_document(file, VERSION, "KubeSchedulerConfiguration")
    counting = {key: value for key, value in data.items() if key not in _NO_MATTER}
    found = read_struct(document, counting, _File, warn)
    if found.extenders:
        raise invalid(document, ("extenders",), "are not supported", hint="take them away")
    if len(found.profiles) != 1:
        raise invalid(document, ("profiles",), f"has {len(found.profiles)} profiles", hint="give one")
    profile = found.profiles[0]
    if found.percentage_of_nodes_to_score != 100:
        warn(f"{document.where()}: percentageOfNodesToScore is not 100; here every node is looked at")
    _warn_of_idle_points(document, profile.plugins, warn)
    _warn_of_idle_arguments(document, profile, warn)
    score = profile.plugins.score
    arguments = {config.name: config.args for config in profile.plugin_config}
    enabled = [WeightedPlugin(plugin.name, plugin.weight) for plugin in score.enabled]
    scorers = scorers_of(
        document,
        enabled,
        {plugin.name for plugin in score.disabled},
        {plugin.name for plugin in profile.plugins.pre_score.enabled},
        arguments,
        warn,
    )
    policy = Policy(
        name="+".join(plugin.name for plugin in score.enabled) or "simon",
        filters=_filters(document, profile.plugins.filter),
        scorers=scorers,
        ties=("random", "name") if any(plugin.name == RANDOM for plugin in score.enabled) else ("rank", "name"),
        devices=_device_rule(
            document, profile.plugin_config, has_fgd=any(one.name == "fgd" for one in scorers), warn=warn
        ),
        ask=_ask(enabled),
    )
    return SchedulerConfig(policy, _endpoint(document, profile.plugin_config) if policy.ask is not None else "")


def _filters(document: Document, points: _Set) -> tuple[PluginUse, ...]:
    """Return our filters, without those that are turned off and not turned on again."""
    path: Path = ("profiles", 0, "plugins", "filter")
    off = {plugin.name for plugin in points.disabled} - {plugin.name for plugin in points.enabled}
    if off & {"NodeResourcesFit", _EVERYTHING}:
        raise invalid(document, (*path, "disabled"), "turns NodeResourcesFit off; room is always checked here")
    for plugin in points.enabled:
        if plugin.name not in (GPU_SHARE, "NodeResourcesFit", *_FILTERS) and not plugin.name.startswith(_OF_VOLUMES):
            known = (GPU_SHARE, "NodeResourcesFit", *_FILTERS)
            raise invalid(
                document,
                (*path, "enabled"),
                f"names {plugin.name!r}, which is no filter here",
                hint=did_you_mean(plugin.name, known),
            )
    gone = {_FILTERS[name] for name in off if name in _FILTERS}
    return tuple(PluginUse(name) for name in DEFAULT_FILTERS if name not in gone)


_OF_VOLUMES = ("Volume", "NodeVolumeLimits", "EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits")


def _device_rule(
    document: Document, configs: tuple[_PluginConfig, ...], *, has_fgd: bool, warn: WarningSink
) -> DeviceRule:
    """Return how gpus are chosen; a name that simon does not register would panic at the first pod with a gpu."""
    for at, config in enumerate(configs):
        path: Path = ("profiles", 0, "pluginConfig", at, "args", "gpuSelMethod")
        if config.name != GPU_SHARE or not config.args.get("gpuSelMethod"):
            continue
        method = config.args["gpuSelMethod"]
        rule = _DEVICE_RULES.get(str(method))
        if rule == "fgd" and not has_fgd:
            raise invalid(
                document,
                path,
                "is 'FGDScore', but FGDScore is not enabled under score",
                hint="enable it, or choose 'best'",
            )
        if rule is not None:
            return rule
        if method in _NOT_HERE:
            raise invalid(
                document,
                path,
                f"is {method!r}, which is not supported here",
                hint="with dimExtMethod merge, DotProductScore goes with 'best'",
            )
        raise invalid(
            document,
            path,
            f"is {str(method)[:60]!r}, which no plugin registers: pods with gpus fail",
            hint=f"one of {', '.join(_DEVICE_RULES)}",
        )
    warn(f"{document.where()}: {GPU_SHARE} has no gpuSelMethod; shares take the gpu with the least left ('best')")
    return "best"


def _warn_of_idle_arguments(document: Document, profile: _Profile, warn: WarningSink) -> None:
    """Warn about arguments that have no effect."""
    enabled = {GPU_SHARE, *(plugin.name for plugin in profile.plugins.score.enabled)}
    for at, config in enumerate(profile.plugin_config):
        path: Path = ("profiles", 0, "pluginConfig", at)
        if config.name not in enabled:
            warn(f"{document.where(path)}: {config.name} is not enabled, so its arguments do not count")
            continue
        known = _ARGUMENTS_OF.get(config.name, _ARGUMENTS[:2])
        for key in config.args:
            if key not in known:
                where = document.where((*path, "args", key))
                warn(f"{where}: argument {quote(key)} of {config.name} does not count; {did_you_mean(key, known)}")


def _warn_of_idle_points(document: Document, plugins: _Plugins, warn: WarningSink) -> None:
    for name, points in (("filter", plugins.filter), ("reserve", plugins.reserve)):
        if all(plugin.name != GPU_SHARE for plugin in points.enabled):
            warn(f"{document.where()}: {GPU_SHARE} is not enabled under {name}; here gpus are always counted")
    idle = {"queueSort": plugins.queue_sort, "permit": plugins.permit, "preBind": plugins.pre_bind}
    for name, points in (*idle.items(), ("postBind", plugins.post_bind), ("postFilter", plugins.post_filter)):
        others = [plugin.name for plugin in points.enabled if plugin.name not in ("PrioritySort", "DefaultPreemption")]
        if others:
            warn(f"{document.where()}: {', '.join(others)} under {name} does not count")


def with_typical(policy: Policy, mix: tuple[MixEntry, ...]) -> Policy:
    """Return the policy with typical pods; one that measures by them needs some."""
    if not mix and any(scorer.name == "fgd" for scorer in policy.scorers):
        raise InputError(
            "FGDScore measures by typical pods, and no pod is one",
            hint="without pods that ask for gpus, set typicalPodsConfig.isInvolvedCpuPods to true",
        )
    return msgspec.structs.replace(policy, mix=mix)
