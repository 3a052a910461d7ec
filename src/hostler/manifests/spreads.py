"""How evenly a pod wants its like spread over domains: topology spread constraints, to the model and back.

What Kubernetes' API server would refuse is refused here too, with the path of the wrong value. Used by
``pods`` and ``pod_writing``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.errors import InputError
from hostler.manifests.objects import SpreadConstraint
from hostler.manifests.places import check_count
from hostler.manifests.selectors import add_label_keys, read_selector, selector_data
from hostler.model import Spread

__all__ = ["read_spread", "spread_data"]

_PATH = "spec.topologySpreadConstraints"
_HARD, _SOFT = "DoNotSchedule", "ScheduleAnyway"
_HONOR, _IGNORE = "Honor", "Ignore"


def read_spread(constraints: Sequence[SpreadConstraint], labels: Mapping[str, str]) -> tuple[Spread, ...]:
    """Turn the spread constraints of a pod with these labels into the model's."""
    found: list[Spread] = []
    for at, constraint in enumerate(constraints):
        path = f"{_PATH}[{at}]"
        spread = _read(constraint, labels, path)
        if any((one.topology, one.is_hard) == (spread.topology, spread.is_hard) for one in found):
            raise InputError(
                f"{path}: topologyKey {spread.topology!r} with {constraint.when_unsatisfiable} stands twice",
                hint="a pod has one constraint for each pair of topologyKey and whenUnsatisfiable",
            )
        found.append(spread)
    return tuple(found)


def spread_data(spread: Spread) -> dict[str, object]:
    """Write a spread constraint; a soft one says nothing about the number of domains, which it ignores."""
    data: dict[str, object] = {
        "maxSkew": spread.max_skew,
        "topologyKey": spread.topology,
        "whenUnsatisfiable": _HARD if spread.is_hard else _SOFT,
    }
    if spread.selector is not None:
        data["labelSelector"] = selector_data(spread.selector)
    if spread.is_hard and spread.min_domains != 1:
        data["minDomains"] = spread.min_domains
    if not spread.honor_affinity:
        data["nodeAffinityPolicy"] = _IGNORE
    if spread.honor_taints:
        data["nodeTaintsPolicy"] = _HONOR
    return data


def _read(constraint: SpreadConstraint, labels: Mapping[str, str], path: str) -> Spread:
    check_count(constraint.max_skew, f"{path}.maxSkew")
    if not constraint.topology_key:
        raise InputError(f"{path}.topologyKey: it is missing", hint="such as topology.kubernetes.io/zone")
    if constraint.when_unsatisfiable not in (_HARD, _SOFT):
        raise InputError(
            f"{path}.whenUnsatisfiable: {constraint.when_unsatisfiable!r} is not a choice",
            hint=f"choices: {_HARD}, {_SOFT}",
        )
    is_hard = constraint.when_unsatisfiable == _HARD
    domains = 1 if constraint.min_domains is None else check_count(constraint.min_domains, f"{path}.minDomains")
    if constraint.min_domains is not None and not is_hard:
        raise InputError(f"{path}.minDomains: it needs whenUnsatisfiable: {_HARD}", hint="drop minDomains")
    selector = read_selector(constraint.label_selector, f"{path}.labelSelector")
    return Spread(
        topology=constraint.topology_key,
        max_skew=constraint.max_skew,
        selector=add_label_keys(selector, constraint.match_label_keys, "In", labels, f"{path}.matchLabelKeys"),
        is_hard=is_hard,
        min_domains=domains,
        honor_affinity=_is_honored(constraint.node_affinity_policy or _HONOR, f"{path}.nodeAffinityPolicy"),
        honor_taints=_is_honored(constraint.node_taints_policy or _IGNORE, f"{path}.nodeTaintsPolicy"),
    )


def _is_honored(policy: str, path: str) -> bool:
    if policy not in (_HONOR, _IGNORE):
        raise InputError(f"{path}: {policy!r} is not a choice", hint=f"choices: {_HONOR}, {_IGNORE}")
    return policy == _HONOR
