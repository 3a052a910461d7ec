"""A pod's constraints on nodes: affinity terms and tolerations, to the model and back.

What Kubernetes' API server would reject is rejected here too, with the path of the wrong value: such a pod can only
come from a file written by hand. Used by ``guests``.
"""

from __future__ import annotations

from typing import get_args

from hostler.errors import InputError
from hostler.manifests.objects.core import NodeAffinity, NodeSelector, PodToleration, SelectorTerm
from hostler.manifests.objects.metadata import Requirement
from hostler.manifests.places import check_name
from hostler.manifests.selectors import NODE_OPERATORS, expression_data, read_expression
from hostler.model import Expression, GuestSpec, Term, Toleration, WeightedTerm
from hostler.model.selectors import Effect

__all__ = [
    "NAME_FIELD", "effect_named", "node_affinity_of", "preferred_terms", "read_toleration", "required_terms",
    "selector_terms", "toleration_of",
]  # fmt: skip

_EFFECTS: dict[str, Effect] = {name: name for name in get_args(Effect)}
NAME_FIELD = "metadata.name"
_PATH = "spec.affinity.nodeAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def required_terms(affinity: NodeAffinity) -> tuple[Term, ...]:
    """Convert the required node affinity to terms; at least one must match."""
    return () if affinity.required is None else selector_terms(affinity.required, f"{_PATH}.{_REQUIRED}")


def selector_terms(selector: NodeSelector, path: str) -> tuple[Term, ...]:
    """Convert a node selector of a pod or volume to terms; at least one must match."""
    path = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        raise InputError(f"{path}: a required node affinity needs at least one term", hint="add a term or drop it")
    return tuple(_term(term, f"{path}[{at}]") for at, term in enumerate(selector.node_selector_terms))


def preferred_terms(affinity: NodeAffinity) -> tuple[WeightedTerm, ...]:
    """Convert the preferred node affinity to weighted terms; an empty preference is dropped."""
    found = []
    for at, preferred in enumerate(affinity.preferred):
        path = f"{_PATH}.{_PREFERRED}[{at}]"
        if not 1 <= preferred.weight <= 100:
            raise InputError(f"{path}.weight: {preferred.weight} is not between 1 and 100")
        term = _term(preferred.preference, f"{path}.preference")
        if term.expressions or term.names:
            found.append(WeightedTerm(preferred.weight, term))
    return tuple(found)


def read_toleration(toleration: PodToleration, path: str) -> Toleration | None:
    """Convert a toleration; None if its operator compares numbers, which is not evaluated."""
    if toleration.operator in ("Gt", "Lt"):
        return None
    effect: Effect | None = effect_named(toleration.effect, f"{path}.effect") if toleration.effect else None
    if toleration.operator in ("", "Equal"):
        if not toleration.key:
            raise InputError(f"{path}: a toleration without a key needs operator Exists", hint="add operator: Exists")
        return Toleration(toleration.key, "Equal", toleration.value, effect or "")
    if toleration.operator != "Exists":
        raise InputError(
            f"{path}.operator: {toleration.operator!r} is not an operator of a toleration",
            hint="operators of tolerations: Equal, Exists",
        )
    if toleration.value:
        raise InputError(f"{path}.value: operator Exists takes no value", hint="use operator Equal, or drop the value")
    return Toleration(toleration.key, "Exists", "", effect or "")


def effect_named(name: str, path: str) -> Effect:
    """Check the effect of a taint."""
    try:
        return _EFFECTS[name]
    except KeyError:
        raise InputError(
            f"{path}: {name!r} is not an effect of a taint", hint=f"effects: {', '.join(_EFFECTS)}"
        ) from None


def node_affinity_of(spec: GuestSpec) -> dict[str, object]:
    """Write the node affinity of a guest; a fixed host becomes a field selector in every term."""
    terms = spec.host_affinity
    if spec.host_name:
        own = Expression(NAME_FIELD, "In", (spec.host_name,))
        # A term without any requirement matches nothing, and must keep doing so.
        narrowed = (Term(t.expressions, (*t.names, own)) if t != Term() else t for t in terms)
        terms = tuple(narrowed) or (Term((), (own,)),)
    affinity: dict[str, object] = {}
    if terms:
        affinity[_REQUIRED] = {"nodeSelectorTerms": [_term_data(term) for term in terms]}
    if spec.preferred_hosts:
        affinity[_PREFERRED] = [
            {"weight": item.weight, "preference": _term_data(item.term)} for item in spec.preferred_hosts
        ]
    return {"nodeAffinity": affinity} if affinity else {}


def toleration_of(toleration: Toleration) -> dict[str, object]:
    """Write a toleration."""
    parts = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: part for name, part in parts.items() if part}


def _term(term: SelectorTerm, path: str) -> Term:
    expressions = (
        read_expression(item, f"{path}.matchExpressions[{at}]", NODE_OPERATORS)
        for at, item in enumerate(term.match_expressions)
    )
    names = (_name_expression(item, f"{path}.matchFields[{at}]") for at, item in enumerate(term.match_fields))
    return Term(tuple(expressions), tuple(names))


def _name_expression(item: Requirement, path: str) -> Expression:
    if item.key != NAME_FIELD:
        raise InputError(f"{path}.key: {item.key!r} is not a field to select by", hint=f"only {NAME_FIELD} is")
    if item.operator not in ("In", "NotIn") or len(item.values) != 1:
        raise InputError(f"{path}: {NAME_FIELD} takes operator In or NotIn with exactly one value")
    check_name(item.values[0], f"{path}.values[0]")
    return read_expression(item, path, NODE_OPERATORS)


def _term_data(term: Term) -> dict[str, object]:
    data: dict[str, object] = {}
    if term.expressions:
        data["matchExpressions"] = [expression_data(item) for item in term.expressions]
    if term.names:
        data["matchFields"] = [expression_data(item) for item in term.names]
    return data
