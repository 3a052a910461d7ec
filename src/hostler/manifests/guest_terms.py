"""What a pod says about other pods that should be near or far: affinity terms, to the model and back.

What Kubernetes' API server would refuse is refused here too, with the path of the wrong value. Used by
``pods`` and ``pod_writing``.
"""

from __future__ import annotations

from collections.abc import Mapping

from hostler.errors import InputError
from hostler.manifests.objects import PodAffinity, PodAffinityTerm
from hostler.manifests.places import check_name
from hostler.manifests.selectors import add_label_keys, read_selector, selector_data
from hostler.model import GuestSpec, GuestTerm, WeightedGuestTerm

__all__ = ["guest_affinity_of", "preferred_guest_terms", "required_guest_terms"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def required_guest_terms(affinity: PodAffinity, labels: Mapping[str, str], path: str) -> tuple[GuestTerm, ...]:
    """Turn the required terms of a pod with these labels into the model's."""
    return tuple(_read_term(term, labels, f"{path}.{_REQUIRED}[{at}]") for at, term in enumerate(affinity.required))


def preferred_guest_terms(affinity: PodAffinity, labels: Mapping[str, str], path: str) -> tuple[WeightedGuestTerm, ...]:
    """Turn the preferred terms of a pod with these labels into the model's."""
    found = []
    for at, preferred in enumerate(affinity.preferred):
        place = f"{path}.{_PREFERRED}[{at}]"
        if not 1 <= preferred.weight <= 100:
            raise InputError(f"{place}.weight: {preferred.weight} is not between 1 and 100")
        term = _read_term(preferred.pod_affinity_term, labels, f"{place}.podAffinityTerm")
        found.append(WeightedGuestTerm(preferred.weight, term))
    return tuple(found)


def guest_affinity_of(spec: GuestSpec) -> dict[str, object]:
    """Write what a guest says about others as pod affinity and anti-affinity."""
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
