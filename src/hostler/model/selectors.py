"""Label expressions, terms and taints: what a guest says about the hosts it accepts.

Semantics are those of Kubernetes' node affinity and tolerations: the expressions of a term are ANDed, the terms are
ORed; ``Gt`` and ``Lt`` compare integers; ``NotIn`` holds where the label is absent. These functions work on one host
and are the definition; the engine evaluates whole columns and is tested against them.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from hostler.model.resources import Labels

__all__ = ["Effect", "Expression", "Operator", "Taint", "Term", "Toleration", "WeightedTerm", "untolerated_taints"]

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Expression(msgspec.Struct, frozen=True, omit_defaults=True):
    """One requirement on one label."""

    key: str
    operator: Operator = "Exists"
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Say whether a host with these labels meets the requirement."""
        value = next((v for k, v in labels if k == self.key), None)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt":
                return value is not None and _compare(value, self.values) > 0
            case "Lt":
                return value is not None and _compare(value, self.values) < 0

    def text(self) -> str:
        """Write the requirement in one line."""
        match self.operator:
            case "Exists" | "DoesNotExist":
                return f"{self.key} {self.operator}"
            case "In" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator} ({', '.join(self.values)})"
            case "Gt" | "Lt":
                return f"{self.key} {'>' if self.operator == 'Gt' else '<'} {''.join(self.values)}"


class Term(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requirements that must all hold, on labels and on the host's name.

    ``names`` holds expressions on the host's own name (only In and NotIn are meaningful). A term without any
    requirement matches nothing, as in Kubernetes.
    """

    expressions: tuple[Expression, ...] = ()
    names: tuple[Expression, ...] = ()

    def matches(self, name: str, labels: Labels) -> bool:
        """Say whether the host meets every requirement."""
        if not self.expressions and not self.names:
            return False
        own_name = (("metadata.name", name),)
        return all(e.matches(labels) for e in self.expressions) and all(e.matches(own_name) for e in self.names)

    def text(self) -> str:
        """Write the term in one line."""
        return " and ".join(e.text() for e in (*self.expressions, *self.names)) or "nothing"


class WeightedTerm(msgspec.Struct, frozen=True):
    """A preferred term, with its weight."""

    weight: int
    term: Term


class Taint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mark on a host that keeps away guests without a matching toleration."""

    key: str
    value: str = ""
    effect: Effect = "NoSchedule"

    def text(self) -> str:
        """Write the taint as kubectl does: ``key=value:Effect``."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, omit_defaults=True):
    """A guest's tolerance of taints; an empty key or effect matches any."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Effect | Literal[""] = ""

    def tolerates(self, taint: Taint) -> bool:
        """Say whether this toleration matches the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


def untolerated_taints(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], *, soft: bool = False
) -> tuple[Taint, ...]:
    """Return the hard (or soft) taints that no toleration matches, in their order."""
    return tuple(
        taint
        for taint in taints
        if (taint.effect == "PreferNoSchedule") == soft and not any(t.tolerates(taint) for t in tolerations)
    )


def _compare(value: str, values: tuple[str, ...]) -> int:
    """Compare a label with the one integer of a Gt or Lt expression; 0 if either is not an integer."""
    if len(values) != 1 or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(values[0]):
        return 0
    left, right = int(value), int(values[0])
    return (left > right) - (left < right)
