"""Scorers ``least_allocated``, ``most_allocated``, ``capacity_ratio`` and ``balanced``: kube-scheduler's, by resource.

Arguments: ``resources`` (name to weight, default cpu 1 and memory 1) and, for ``capacity_ratio``, ``points``: a list
of [use in percent, score 0..10] in ascending order of use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.engine.cluster.tables import Table
from hostler.engine.kernels.layout import (
    OP_BALANCED,
    OP_CAPACITY_RATIO,
    OP_LEAST_ALLOCATED,
    OP_MOST_ALLOCATED,
    PARAMS,
)
from hostler.engine.view import ClusterView
from hostler.errors import InputError
from hostler.model import CPU, MEMORY, GuestSpec, amount_of
from hostler.model.policies import Normalizer

# Kubernetes scores these two by defaults when a guest asks for none (columns of ``HostColumns.scored``).
_SCORED_COLUMNS = {CPU: 0, MEMORY: 1}
_MAX_RESOURCES = 8
_MAX_POINTS = 11


class _Allocation:
    """The common part: weighted resources."""

    name = "allocation"
    operation = OP_LEAST_ALLOCATED
    normalizer: Normalizer = "none"
    is_float = False
    wants_mix = False

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._weights = _weights(self.name, args.get("resources", {CPU: 1, MEMORY: 1}))
        unknown = set(args) - {"resources", *self._more_arguments()}
        if unknown:
            raise InputError(f"scorer {self.name} has no argument {sorted(unknown)[0]!r}")

    def parameters(self, resources: Table[str]) -> Sequence[int]:
        """Encode count, then number, weight and scored column of each resource."""
        encoded = [len(self._weights)]
        for name, weight in self._weights:
            encoded += [resources.number(name), weight, _SCORED_COLUMNS.get(name, -1)]
        return encoded

    def applies(self, spec: GuestSpec) -> bool:
        """Return True: every guest has a size."""
        return True

    def _more_arguments(self) -> tuple[str, ...]:
        return ()


class LeastAllocated(_Allocation):
    """Prefer hosts with a larger share of free resources."""

    name = "least_allocated"
    operation = OP_LEAST_ALLOCATED


class MostAllocated(_Allocation):
    """Prefer hosts with a smaller share of free resources."""

    name = "most_allocated"
    operation = OP_MOST_ALLOCATED


class Balanced(_Allocation):
    """Prefer hosts whose resources become more evenly used; guests without requests are not scored."""

    name = "balanced"
    operation = OP_BALANCED

    def applies(self, spec: GuestSpec) -> bool:
        """Say whether the guest requests any of the resources."""
        return any(amount_of(spec.requests, name) for name, _ in self._weights)


class CapacityRatio(_Allocation):
    """Prefer hosts by a line of points over their use after the placement."""

    name = "capacity_ratio"
    operation = OP_CAPACITY_RATIO

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        super().__init__(view, args)
        self._points = _points(args.get("points", [[0, 0], [100, 10]]))

    def parameters(self, resources: Table[str]) -> Sequence[int]:
        """Append the points, scores scaled to 0..100."""
        encoded = [*super().parameters(resources), len(self._points)]
        for use, score in self._points:
            encoded += [use, score * 10]
        return encoded

    def _more_arguments(self) -> tuple[str, ...]:
        return ("points",)


def _weights(plugin: str, value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, Mapping) or not 0 < len(value) <= _MAX_RESOURCES:
        raise InputError(f"scorer {plugin}: resources must map 1 to {_MAX_RESOURCES} names to weights")
    for name, weight in value.items():
        if not isinstance(weight, int) or isinstance(weight, bool) or not 1 <= weight <= 100:
            raise InputError(f"scorer {plugin}: the weight of {name} must be a whole number from 1 to 100")
    return tuple(value.items())


def _points(value: object) -> tuple[tuple[int, int], ...]:
    hint = "points are [use in percent, score 0..10] in ascending order of use"
    if not isinstance(value, Sequence) or not 1 <= len(value) <= _MAX_POINTS:
        raise InputError(f"scorer capacity_ratio: points must be a list of 1 to {_MAX_POINTS} pairs", hint=hint)
    points: list[tuple[int, int]] = []
    for pair in value:
        whole = isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(n, int) for n in pair)
        if not whole or not 0 <= pair[0] <= 100 or not 0 <= pair[1] <= 10:
            raise InputError(f"scorer capacity_ratio: {pair!r} is not a point", hint=hint)
        if points and pair[0] <= points[-1][0]:
            raise InputError("scorer capacity_ratio: points must ascend", hint=hint)
        points.append((pair[0], pair[1]))
    return tuple(points)


assert 1 + 3 * _MAX_RESOURCES + 1 + 2 * _MAX_POINTS <= PARAMS
