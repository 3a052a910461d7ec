"""Which nodes can reach a volume, as node selector terms, and which free volume may serve a claim.

Terms are ORed, and a pod with several volumes needs all of them, so lists of terms are multiplied out. Nodes without
any label for zone or region count as reaching every zone, as in kube-scheduler. Used by ``volumes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostler.errors import InputError
from hostler.manifests.objects.volumes import PersistentVolume, PersistentVolumeClaim, TopologyTerm
from hostler.manifests.places import parse_quantities
from hostler.manifests.pods.constraints import selector_terms
from hostler.manifests.selectors import read_selector
from hostler.model import Expression, Term, labels

__all__ = ["MAX_TERMS", "both", "either", "serves", "topology_terms", "volume_terms", "zone_terms"]

MAX_TERMS = 256
_STORAGE = "storage"
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
# The label names before Kubernetes 1.17; nodes have both.
_ZONES = {
    _ZONE: _ZONE,
    _REGION: _REGION,
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
_SEVERAL = "__"  # separates the zones of a volume in several zones
_NOWHERE = Term()  # a term without requirements matches nothing
_WITHOUT_ZONES = Term(tuple(Expression(key, "DoesNotExist") for key in (_ZONE, _REGION)))


def volume_terms(volume: PersistentVolume) -> tuple[Term, ...]:
    """Return the nodes that reach a volume by its node affinity. No terms: all nodes."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ()
    return selector_terms(affinity.required, "spec.nodeAffinity.required")


def zone_terms(volumes: Iterable[PersistentVolume]) -> tuple[Term, ...]:
    """Return the nodes in the zones and regions of the volumes' labels. No terms: all nodes."""
    wanted: dict[Expression, None] = {}
    for volume in volumes:
        for old, key in _ZONES.items():
            value = volume.metadata.labels.get(old)
            if value is not None:
                zones = tuple(dict.fromkeys(part for part in value.split(_SEVERAL) if part))
                wanted[Expression(key, "In", zones or (value,))] = None
    return (Term(tuple(wanted)), _WITHOUT_ZONES) if wanted else ()


def topology_terms(topologies: Sequence[TopologyTerm]) -> tuple[Term, ...]:
    """Return the nodes where a class can provision volumes. No terms: all nodes."""
    return tuple(
        Term(tuple(Expression(one.key, "In", one.values) for one in topology.match_label_expressions))
        for topology in topologies
    )


def both(first: tuple[Term, ...], second: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return terms that match where both lists match. Empty lists match everywhere."""
    if not first or not second:
        return first or second
    found: dict[Term, None] = {}
    for one in first:
        for other in second:
            if _NOWHERE not in (one, other):
                found[_join_terms(one, other)] = None
        if len(found) > MAX_TERMS:
            raise InputError(f"its volumes and its affinity together make more than {MAX_TERMS} node selector terms")
    return tuple(found) or (_NOWHERE,)


def either(lists: Iterable[tuple[Term, ...]]) -> tuple[Term, ...]:
    """Return terms that match where one of the lists matches; the values of terms about one label are merged.

    Local disks on a thousand nodes make a thousand terms that differ only in the node's name.
    """
    values: dict[str, dict[str, None]] = {}
    found: dict[Term, None] = {}
    for terms in lists:
        if not terms:
            return ()  # one list that matches everywhere is enough
        for term in terms:
            one = term.expressions[0] if len(term.expressions) == 1 and not term.names else None
            if one is not None and one.operator == "In":
                values.setdefault(one.key, {}).update(dict.fromkeys(one.values))
            elif term != _NOWHERE:
                found[term] = None
    merged = (Term((Expression(key, "In", tuple(sorted(known))),)) for key, known in values.items())
    return (*merged, *found) or (_NOWHERE,)


def serves(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a free volume of the claim's class meets the claim."""
    wanted, offered = claim.spec, volume.spec
    reserved = offered.claim_ref
    if reserved is not None and (reserved.namespace, reserved.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    if (wanted.volume_mode or "Filesystem") != (offered.volume_mode or "Filesystem"):
        return False
    if not set(wanted.access_modes) <= set(offered.access_modes):
        return False
    selector = read_selector(wanted.selector, "spec.selector")
    if selector is not None and not selector.matches(labels(volume.metadata.labels)):
        return False
    size = parse_quantities(wanted.resources.requests or {}, "spec.resources.requests").get(_STORAGE, 0)
    return parse_quantities(offered.capacity, "spec.capacity").get(_STORAGE, 0) >= size


def _join_terms(one: Term, other: Term) -> Term:
    if one == other:
        return one
    expressions = dict.fromkeys((*one.expressions, *other.expressions))
    return Term(tuple(expressions), tuple(dict.fromkeys((*one.names, *other.names))))
