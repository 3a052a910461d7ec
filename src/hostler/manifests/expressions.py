"""Requirements on labels, to the model's expressions and back.

Nodes are selected by six operators, pods and namespaces by four. What Kubernetes' API server would
refuse is refused here too, with the path of the wrong value. Used by ``constraints`` and ``selectors``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from hostler.errors import InputError
from hostler.manifests.metadata import Requirement
from hostler.model import Expression
from hostler.model.selectors import Operator

__all__ = ["LABEL_OPERATORS", "NODE_OPERATORS", "expression_data", "read_expression"]

NODE_OPERATORS: Mapping[str, Operator] = {name: name for name in get_args(Operator)}
LABEL_OPERATORS: Mapping[str, Operator] = {name: name for name in NODE_OPERATORS.values() if name not in ("Gt", "Lt")}


def read_expression(item: Requirement, path: str, operators: Mapping[str, Operator]) -> Expression:
    """Turn a requirement into an expression; ``operators`` are those that the place allows."""
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
