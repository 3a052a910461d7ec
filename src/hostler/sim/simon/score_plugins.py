"""Score plugins of ``simon``, and the stock ones that stay on unless they are turned off, as scorers of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from hostler.config import Document, did_you_mean, invalid
from hostler.config.wording import Path
from hostler.model import ScorerUse
from hostler.sim.simon.keys import Tell

__all__ = ["GPU_SHARE", "RANDOM", "Use", "scorers_of"]

GPU_SHARE = "Open-Gpu-Share"
RANDOM = "RandomScore"
_NETWORK = "RLSchedulerScore"

_OURS = {
    "BestFitScore": "gpu_best_fit",
    "DotProductScore": "dot_product",
    "GpuClusteringScore": "gpu_clustering",
    "GpuPackingScore": "gpu_packing",
    "FGDScore": "fgd",
}
# Their scores come from a PreScore; without it every pod fails ("not found" in the cycle's state).
_NEED_PRE_SCORE = (RANDOM, _NETWORK)

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
_SAME_FOR_ALL = ("NodePreferAvoidPods",)  # looks at an annotation of nodes that nobody writes any more
_EVERYTHING = "*"

_DIMENSIONS = ("merge", "share", "divide", "extend")
_NORMS = ("max", "node", "pod")


class Use(NamedTuple):
    """A plugin that is enabled, and its weight."""

    name: str
    weight: int


def scorers_of(
    document: Document,
    enabled: Sequence[Use],
    disabled: Set[str],
    pre_score: Set[str],
    arguments: Mapping[str, Mapping[str, object]],
    tell: Tell,
) -> tuple[ScorerUse, ...]:
    """Return the scorers of a profile; none at all means that a host is drawn by lot."""
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
        if use.name in _SAME_FOR_ALL or use.name == RANDOM:
            continue
        scorers.append(_scorer(document, where, use, arguments.get(use.name, {})))
    stock = _still_on(names, disabled)
    if stock:
        tell(f"{document.where(path)}: {', '.join(stock)} are not disabled under score, so they count too, as there")
    scorers += (ScorerUse(_STOCK[name][0], _STOCK[name][1], _STOCK[name][2], name) for name in stock)
    if RANDOM in names and scorers:
        raise invalid(
            document,
            path,
            "has RandomScore beside others, which is not supported here",
            hint="disable the other score plugins, the stock ones too",
        )
    if not names and not scorers:
        raise invalid(document, path, "is empty", hint=f"enable one of {', '.join((RANDOM, *_OURS))}")
    return tuple(scorers)


def _still_on(enabled: Sequence[str], disabled: Set[str]) -> list[str]:
    """Return the stock plugins that nobody turned off: the sets of a file merge with the defaults."""
    if _EVERYTHING in disabled:
        return []
    return [name for name, (_, weight, _) in _STOCK.items() if weight and name not in {*disabled, *enabled}]


def _scorer(document: Document, where: Path, use: Use, arguments: Mapping[str, object]) -> ScorerUse:
    weight = use.weight or 1
    if use.name in _STOCK:
        name, _, args = _STOCK[use.name]
        return ScorerUse(name, weight, args, use.name)
    if use.name not in _OURS:
        known = (RANDOM, *_OURS, *_STOCK)
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
    if name == _NETWORK:
        raise invalid(
            document,
            where,
            f"is {name}, a service of its own, which is not asked here",
            hint="hostler sim scorer runs networks, in process or over HTTP",
        )
