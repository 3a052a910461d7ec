"""A pod's constraints about other pods: near, apart, or spread evenly over domains; to the model and back.

What Kubernetes' API server would reject is rejected here too, with the path of the wrong value. Used by ``guests`` and
``output``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.errors import InputError
from hostler.manifests.objects.core import PodAffinity, PodAffinityTerm, SpreadConstraint
from hostler.manifests.places import check_count, check_name
from hostler.manifests.selectors import add_label_keys, read_selector, selector_data
from hostler.model import GuestSpec, GuestTerm, Spread, WeightedGuestTerm

__all__ = ["guest_affinity_of", "preferred_guest_terms", "read_spread", "required_guest_terms", "spread_data"]

_PATH = "spec.topologySpreadConstraints"
_HARD, _SOFT = "DoNotSchedule", "ScheduleAnyway"
_HONOR, _IGNORE = "Honor", "Ignore"


def read_spread(constraints: Sequence[SpreadConstraint], labels: Mapping[str, str]) -> tuple[Spread, ...]:
    """Convert the spread constraints of a pod with these labels."""
    found: list[Spread] = []
    for at, constraint in enumerate(constraints):
        path = f"{_PATH}[{at}]"
        spread = _read(constraint, labels, path)
        if any((one.topology, one.is_hard) == (spread.topology, spread.is_hard) for one in found):
            raise InputError(
                f"{path}: topologyKey {spread.topology!r} with {constraint.when_unsatisfiable} appears twice",
                hint="a pod has one constraint for each pair of topologyKey and whenUnsatisfiable",
            )
        found.append(spread)
    return tuple(found)


def spread_data(spread: Spread) -> dict[str, object]:
    """Write a spread constraint; a soft one omits the number of domains, which it ignores."""
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


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def required_guest_terms(affinity: PodAffinity, labels: Mapping[str, str], path: str) -> tuple[GuestTerm, ...]:
    """Convert the required terms of a pod with these labels."""
    return tuple(_read_term(term, labels, f"{path}.{_REQUIRED}[{at}]") for at, term in enumerate(affinity.required))


def preferred_guest_terms(affinity: PodAffinity, labels: Mapping[str, str], path: str) -> tuple[WeightedGuestTerm, ...]:
    """Convert the preferred terms of a pod with these labels."""
    found = []
    for at, preferred in enumerate(affinity.preferred):
        place = f"{path}.{_PREFERRED}[{at}]"
        if not 1 <= preferred.weight <= 100:
            raise InputError(f"{place}.weight: {preferred.weight} is not between 1 and 100")
        term = _read_term(preferred.pod_affinity_term, labels, f"{place}.podAffinityTerm")
        found.append(WeightedGuestTerm(preferred.weight, term))
    return tuple(found)


def guest_affinity_of(spec: GuestSpec) -> dict[str, object]:
    """Write a guest's terms about others as pod affinity and anti-affinity."""
    sides = {
        "podAffinity": _affinity_data(spec.affinity, spec.preferred_affinity),
        "podAntiAffinity": _affinity_data(spec.anti_affinity, spec.preferred_anti_affinity),
    }
    return {name: side for name, side in sides.items() if side}


def _read_term(term: PodAffinityTerm, labels: Mapping[str, str], path: str) -> GuestTerm:
    if not term.topology_key:
        raise InputError(f"{path}.topologyKey: it is missing", hint="such as kubernetes.io/hostname")
    for namespace in term.namespaces:
        if not namespace:
            raise InputError(f"{path}.namespaces: a name is empty", hint="drop it, or name the namespace")
        check_name(namespace, f"{path}.namespaces")
    selector = read_selector(term.label_selector, f"{path}.labelSelector")
    selector = add_label_keys(selector, term.match_label_keys, "In", labels, f"{path}.matchLabelKeys")
    selector = add_label_keys(selector, term.mismatch_label_keys, "NotIn", labels, f"{path}.mismatchLabelKeys")
    return GuestTerm(
        topology=term.topology_key,
        selector=selector,
        namespaces=tuple(dict.fromkeys(term.namespaces)),
        namespace_selector=read_selector(term.namespace_selector, f"{path}.namespaceSelector"),
    )


def _affinity_data(required: tuple[GuestTerm, ...], preferred: tuple[WeightedGuestTerm, ...]) -> dict[str, object]:
    data: dict[str, object] = {}
    if required:
        data[_REQUIRED] = [_term_data(term) for term in required]
    if preferred:
        data[_PREFERRED] = [{"weight": item.weight, "podAffinityTerm": _term_data(item.term)} for item in preferred]
    return data


def _term_data(term: GuestTerm) -> dict[str, object]:
    data: dict[str, object] = {"topologyKey": term.topology}
    if term.selector is not None:
        data["labelSelector"] = selector_data(term.selector)
    if term.namespaces:
        data["namespaces"] = list(term.namespaces)
    if term.namespace_selector is not None:
        data["namespaceSelector"] = selector_data(term.namespace_selector)
    return data
