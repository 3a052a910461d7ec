"""Label selectors and single requirements on labels, to the model's expressions and back.

Nodes are selected by six operators, pods and namespaces by four. What Kubernetes' API server would reject is rejected
here too, with the path of the wrong value. An absent selector selects nothing; an empty one selects everything.
``matchLabelKeys`` and ``mismatchLabelKeys`` become requirements with the pod's own values, as the API server makes them
when the pod is created.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from hostler.errors import InputError
from hostler.manifests.objects.metadata import LabelSelector, Requirement
from hostler.manifests.places import check_keys
from hostler.model import Expression, Selector
from hostler.model.selectors import Operator

__all__ = [
    "LABEL_OPERATORS", "NODE_OPERATORS", "add_label_keys", "expression_data", "read_expression", "read_selector",
    "select_labels", "selector_data",
]  # fmt: skip

NODE_OPERATORS: Mapping[str, Operator] = {name: name for name in get_args(Operator)}
LABEL_OPERATORS: Mapping[str, Operator] = {name: name for name in NODE_OPERATORS.values() if name not in ("Gt", "Lt")}


def read_expression(item: Requirement, path: str, operators: Mapping[str, Operator]) -> Expression:
    """Convert a requirement to an expression; ``operators`` are those allowed at this place."""
    operator = operators.get(item.operator)
    if operator is None:
        raise InputError(
            f"{path}.operator: {item.operator!r} is not an operator",
            hint=f"operators: {', '.join(operators)}",
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


def expression_data(item: Expression) -> dict[str, object]:
    """Write an expression."""
    data: dict[str, object] = {"key": item.key, "operator": item.operator}
    return {**data, "values": list(item.values)} if item.values else data


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdecimal() and len(digits) <= 19


def read_selector(selector: LabelSelector | None, path: str) -> Selector | None:
    """Convert a label selector."""
    if selector is None:
        return None
    check_keys(selector.match_labels, f"{path}.matchLabels")
    found = [
        read_expression(item, f"{path}.matchExpressions[{at}]", LABEL_OPERATORS)
        for at, item in enumerate(selector.match_expressions)
    ]
    return Selector((*select_labels(selector.match_labels).expressions, *found))


def select_labels(labels: Mapping[str, str]) -> Selector:
    """Return a selector of objects with all these labels."""
    return Selector(tuple(Expression(key, "In", (value,)) for key, value in sorted(labels.items())))


def add_label_keys(
    selector: Selector | None,
    keys: Sequence[str],
    operator: Literal["In", "NotIn"],
    labels: Mapping[str, str],
    path: str,
) -> Selector | None:
    """Require the pod's own value of each key, or another one; keys that the pod lacks are skipped."""
    if not keys:
        return selector
    if selector is None:
        raise InputError(f"{path}: keys of labels need a labelSelector beside them", hint="add a labelSelector")
    # In a pod from a live cluster the API server has merged the keys already.
    merged = {(item.key, item.operator) for item in selector.expressions}
    added = [
        Expression(key, operator, (labels[key],))
        for key in dict.fromkeys(keys)
        if key in labels and (key, operator) not in merged
    ]
    return Selector((*selector.expressions, *added))


def selector_data(selector: Selector) -> dict[str, object]:
    """Write a selector; one that selects everything becomes an empty object."""
    if not selector.expressions:
        return {}
    return {"matchExpressions": [expression_data(item) for item in selector.expressions]}
