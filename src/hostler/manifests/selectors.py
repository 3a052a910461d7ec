"""Label selectors to the model and back, with the keys whose values come from the pod itself.

A selector that is not there selects nothing; an empty one selects everything. ``matchLabelKeys`` and
``mismatchLabelKeys`` become requirements with the pod's own values, as the API server makes them when the
pod is created. Used by ``guest_terms``, ``spreads``, ``budgets``, ``surroundings`` and ``workloads``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from hostler.errors import InputError
from hostler.manifests.expressions import LABEL_OPERATORS, expression_data, read_expression
from hostler.manifests.metadata import LabelSelector
from hostler.manifests.places import check_keys
from hostler.model import Expression, Selector

__all__ = ["add_label_keys", "read_selector", "select_labels", "selector_data"]


def read_selector(selector: LabelSelector | None, path: str) -> Selector | None:
    """Turn a label selector into the model's."""
    if selector is None:
        return None
    check_keys(selector.match_labels, f"{path}.matchLabels")
    found = [
        read_expression(item, f"{path}.matchExpressions[{at}]", LABEL_OPERATORS)
        for at, item in enumerate(selector.match_expressions)
    ]
    return Selector((*select_labels(selector.match_labels).expressions, *found))


def select_labels(labels: Mapping[str, str]) -> Selector:
    """Build the selector of whatever has all these labels."""
    return Selector(tuple(Expression(key, "In", (value,)) for key, value in sorted(labels.items())))


def add_label_keys(
    selector: Selector | None,
    keys: Sequence[str],
    operator: Literal["In", "NotIn"],
    labels: Mapping[str, str],
    path: str,
) -> Selector | None:
    """Require the pod's own value of each key, or another one; keys that the pod does not have are left out."""
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
