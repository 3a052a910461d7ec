"""The scheduler configuration of ``simon apply``: a KubeSchedulerConfiguration to one policy of ours."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostler.config import Document, did_you_mean, invalid, quote
from hostler.config.wording import Path
from hostler.errors import InputError
from hostler.model import MixEntry, PluginUse, Policy
from hostler.model.policies import DEFAULT_FILTERS, DeviceRule
from hostler.sim.simon.keys import Part, Tell, only_document, read_struct
from hostler.sim.simon.score_plugins import GPU_SHARE, RANDOM, Use, scorers_of

__all__ = ["read_scheduler_config", "with_typical"]

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
_EVERYTHING = "*"
_ARGUMENTS = ("dimExtMethod", "normMethod", "gpuSelMethod")


class _Plugin(Part, frozen=True):
    name: str
    weight: int = 0


class _Set(Part, frozen=True):
    enabled: tuple[_Plugin, ...] = ()
    disabled: tuple[_Plugin, ...] = ()


class _Plugins(Part, frozen=True):
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


class _PluginConfig(Part, frozen=True):
    name: str
    args: dict[str, object] = msgspec.field(default_factory=dict)


class _Profile(Part, frozen=True):
    scheduler_name: str = "simon-scheduler"
    plugins: _Plugins = _Plugins()
    plugin_config: tuple[_PluginConfig, ...] = ()


class _File(Part, frozen=True):
    api_version: str
    kind: str
    percentage_of_nodes_to_score: int = 0
    profiles: tuple[_Profile, ...] = ()
    extenders: tuple[object, ...] = ()


def read_scheduler_config(file: str, tell: Tell) -> Policy:
    """Read a scheduler configuration; ``tell`` hears of what does not count. The policy has no typical mix yet."""
    document, data = only_document(file, VERSION, "KubeSchedulerConfiguration")
    counting = {key: value for key, value in data.items() if key not in _NO_MATTER}
    found = read_struct(document, counting, _File, tell)
    if found.extenders:
        raise invalid(document, ("extenders",), "are not supported", hint="take them away")
    if len(found.profiles) != 1:
        raise invalid(document, ("profiles",), f"has {len(found.profiles)} profiles", hint="give one")
    profile = found.profiles[0]
    if found.percentage_of_nodes_to_score != 100:
        tell(f"{document.where()}: percentageOfNodesToScore is not 100; here every node is looked at")
    _tell_idle_points(document, profile.plugins, tell)
    _tell_arguments(document, profile, tell)
    score = profile.plugins.score
    arguments = {config.name: config.args for config in profile.plugin_config}
    scorers = scorers_of(
        document,
        [Use(plugin.name, plugin.weight) for plugin in score.enabled],
        {plugin.name for plugin in score.disabled},
        {plugin.name for plugin in profile.plugins.pre_score.enabled},
        arguments,
        tell,
    )
    return Policy(
        name="+".join(plugin.name for plugin in score.enabled) or "simon",
        filters=_filters(document, profile.plugins.filter),
        scorers=scorers,
        ties=("random", "name") if any(plugin.name == RANDOM for plugin in score.enabled) else ("rank", "name"),
        devices=_device_rule(
            document, profile.plugin_config, has_fgd=any(one.name == "fgd" for one in scorers), tell=tell
        ),
    )


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


def _device_rule(document: Document, configs: tuple[_PluginConfig, ...], *, has_fgd: bool, tell: Tell) -> DeviceRule:
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
            f"is {str(method)[:60]!r}, which nobody registers: pods with gpus fail",
            hint=f"one of {', '.join(_DEVICE_RULES)}",
        )
    tell(f"{document.where()}: {GPU_SHARE} has no gpuSelMethod; shares take the gpu with the least left ('best')")
    return "best"


def _tell_arguments(document: Document, profile: _Profile, tell: Tell) -> None:
    """Say which arguments nobody reads."""
    enabled = {GPU_SHARE, *(plugin.name for plugin in profile.plugins.score.enabled)}
    for at, config in enumerate(profile.plugin_config):
        path: Path = ("profiles", 0, "pluginConfig", at)
        if config.name not in enabled:
            tell(f"{document.where(path)}: {config.name} is not enabled, so its arguments do not count")
            continue
        known = _ARGUMENTS if config.name == GPU_SHARE else _ARGUMENTS[:2]
        for key in config.args:
            if key not in known:
                where = document.where((*path, "args", key))
                tell(f"{where}: argument {quote(key)} of {config.name} does not count; {did_you_mean(key, known)}")


def _tell_idle_points(document: Document, plugins: _Plugins, tell: Tell) -> None:
    for name, points in (("filter", plugins.filter), ("reserve", plugins.reserve)):
        if all(plugin.name != GPU_SHARE for plugin in points.enabled):
            tell(f"{document.where()}: {GPU_SHARE} is not enabled under {name}; here gpus are always counted")
    idle = {"queueSort": plugins.queue_sort, "permit": plugins.permit, "preBind": plugins.pre_bind}
    for name, points in (*idle.items(), ("postBind", plugins.post_bind), ("postFilter", plugins.post_filter)):
        others = [plugin.name for plugin in points.enabled if plugin.name not in ("PrioritySort", "DefaultPreemption")]
        if others:
            tell(f"{document.where()}: {', '.join(others)} under {name} does not count")


def with_typical(policy: Policy, mix: tuple[MixEntry, ...]) -> Policy:
    """Return the policy with typical pods; one that measures by them needs some."""
    if not mix and any(scorer.name == "fgd" for scorer in policy.scorers):
        raise InputError(
            "FGDScore measures by typical pods, and no pod is one",
            hint="without pods that ask for gpus, set typicalPodsConfig.isInvolvedCpuPods to true",
        )
    return msgspec.structs.replace(policy, mix=mix)
