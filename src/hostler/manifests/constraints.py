"""What a pod says about the nodes it accepts: affinity terms and tolerations, to the model and back.

What Kubernetes' API server would refuse is refused here too, with the path of the wrong value: such a pod
can come only from a file written by hand. Used by ``pods``.
"""

from __future__ import annotations

from typing import get_args

from hostler.errors import InputError
from hostler.manifests.objects import NodeAffinity, PodToleration, Requirement, SelectorTerm
from hostler.model import Expression, GuestSpec, Term, Toleration, WeightedTerm
from hostler.model.selectors import Effect, Operator

__all__ = [
    "affinity_of",
    "effect_named",
    "preferred_terms",
    "read_toleration",
    "required_terms",
    "toleration_of",
]

_OPERATORS: dict[str, Operator] = {name: name for name in get_args(Operator)}
_EFFECTS: dict[str, Effect] = {name: name for name in get_args(Effect)}
_NAME_FIELD = "metadata.name"
_PATH = "spec.affinity.nodeAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def required_terms(affinity: NodeAffinity) -> tuple[Term, ...]:
    """Turn the required node affinity into terms of which one must match."""
    if affinity.required is None:
        return ()
    path = f"{_PATH}.{_REQUIRED}.nodeSelectorTerms"
    terms = affinity.required.node_selector_terms
    if not terms:
        raise InputError(f"{path}: a required node affinity needs at least one term", hint="add a term or drop it")
    return tuple(_term(term, f"{path}[{at}]") for at, term in enumerate(terms))


def preferred_terms(affinity: NodeAffinity) -> tuple[WeightedTerm, ...]:
    """Turn the preferred node affinity into weighted terms; an empty preference is dropped."""
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
    """Turn a toleration into the model's; None when its operator compares numbers, which is not evaluated."""
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


def affinity_of(spec: GuestSpec) -> dict[str, object]:
    """Write the node affinity of a guest; a fixed host becomes a field selector in every term."""
    terms = spec.host_affinity
    if spec.host_name:
        own = Expression(_NAME_FIELD, "In", (spec.host_name,))
        terms = tuple(Term(t.expressions, (*t.names, own)) for t in terms) or (Term((), (own,)),)
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
    return Term(
        tuple(_expression(item, f"{path}.matchExpressions[{at}]") for at, item in enumerate(term.match_expressions)),
        tuple(_name_expression(item, f"{path}.matchFields[{at}]") for at, item in enumerate(term.match_fields)),
    )


def _expression(item: Requirement, path: str) -> Expression:
    operator = _OPERATORS.get(item.operator)
    if operator is None:
        raise InputError(
            f"{path}.operator: {item.operator!r} is not an operator",
            hint=f"operators: {', '.join(_OPERATORS)}",
        )
    if not item.key:
        raise InputError(f"{path}.key: a label's key is missing")
    match operator:
        case "In" | "NotIn" if not item.values:
            raise InputError(f"{path}.values: operator {operator} needs at least one value")
        case "Exists" | "DoesNotExist" if item.values:
            raise InputError(f"{path}.values: operator {operator} takes no values")
        case "Gt" | "Lt" if len(item.values) != 1 or not _is_integer(item.values[0]):
            raise InputError(f"{path}.values: operator {operator} needs exactly one integer", hint='such as ["4"]')
    return Expression(item.key, operator, item.values)


def _name_expression(item: Requirement, path: str) -> Expression:
    if item.key != _NAME_FIELD:
        raise InputError(f"{path}.key: {item.key!r} is not a field to select by", hint=f"only {_NAME_FIELD} is")
    if item.operator not in ("In", "NotIn") or len(item.values) != 1:
        raise InputError(f"{path}: {_NAME_FIELD} takes operator In or NotIn with exactly one value")
    return _expression(item, path)


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdecimal() and len(digits) <= 19


def _term_data(term: Term) -> dict[str, object]:
    data: dict[str, object] = {}
    if term.expressions:
        data["matchExpressions"] = [_expression_data(item) for item in term.expressions]
    if term.names:
        data["matchFields"] = [_expression_data(item) for item in term.names]
    return data


def _expression_data(item: Expression) -> dict[str, object]:
    data: dict[str, object] = {"key": item.key, "operator": item.operator}
    return {**data, "values": list(item.values)} if item.values else data
