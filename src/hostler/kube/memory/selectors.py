"""Label and field selectors, as the API server in memory understands them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hostler.kube.memory.error_answers import bad_request
from hostler.kube.memory.kinds import ServedKind

__all__ = ["Matcher", "matches_selector", "reads_selectors"]

Matcher = Callable[[dict[str, Any]], bool]

_FIELDS = {
    "pods": ("spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "status.phase", "status.nominatedNodeName"),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "events": ("reason", "type", "regarding.name", "regarding.namespace", "regarding.uid", "reportingController"),
}
_SETS = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")


def reads_selectors(kind: ServedKind, labels: str, fields: str) -> Matcher | None:
    """Return a predicate for objects, or None if every object matches."""
    tests = _label_tests(labels) + _field_tests(kind, fields)
    if not tests:
        return None
    return lambda item: all(test(item) for test in tests)


def _label_tests(text: str) -> list[Matcher]:
    return [_label_test(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _label_test(part: str) -> Matcher:
    found = _SETS.match(part)
    if found:
        key, word, values = found[1], found[2], {value.strip() for value in found[3].split(",")}
        if word == "in":
            return lambda item: _labels(item).get(key) in values
        return lambda item: _labels(item).get(key) not in values
    for sign in ("!=", "==", "="):
        if sign in part:
            key, value = (side.strip() for side in part.split(sign, 1))
            if not key:
                raise bad_request(f"found '{sign}', expected: !, identifier, or 'end of string'")
            if sign == "!=":
                return lambda item: _labels(item).get(key) != value
            return lambda item: _labels(item).get(key) == value
    if part.startswith("!"):
        return lambda item: part[1:] not in _labels(item)
    return lambda item: part in _labels(item)


def _labels(item: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = item["metadata"].get("labels") or {}
    return labels


def _field_tests(kind: ServedKind, text: str) -> list[Matcher]:
    tests = []
    for part in text.split(","):
        if part:
            sign = next((sign for sign in ("!=", "==", "=") if sign in part), None)
            if sign is None:
                raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
            path, value = part.split(sign, 1)
            if path not in ("metadata.name", "metadata.namespace", *_FIELDS.get(kind.plural, ())):
                raise bad_request(f"field label not supported: {path}")
            tests.append(_field_test(path.split("."), value, is_equal=sign != "!="))
    return tests


def _field_test(path: list[str], value: str, *, is_equal: bool) -> Matcher:
    def test(item: dict[str, Any]) -> bool:
        place: Any = item
        for word in path:
            place = place.get(word) if isinstance(place, dict) else None
        found = str(place).lower() if isinstance(place, bool) else str(place or "")
        return (found == value) == is_equal

    return test


def matches_selector(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    """Return whether an object's LabelSelector matches labels; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(rule, labels) for rule in selector.get("matchExpressions") or ())


def _meets(rule: dict[str, Any], labels: dict[str, str]) -> bool:
    key, values = rule["key"], rule.get("values") or ()
    match rule["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
