"""The plugin contracts between the engine and the code that filters and scores.

There are three kinds. *Kernel scorers* are numbered operations inside the kernels; their class only names the operation
and encodes its arguments. *Column* filters and scorers are Python over numpy, evaluated for changed rows only. Built-in
column plugins read marks (labels, taints, cordons); plugins of third parties may read all of ``ClusterView``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from hostler.engine.cluster.tables import Table
from hostler.engine.kernels.layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec
from hostler.model.policies import Normalizer
from hostler.model.reasons import ReasonKind, Wake

__all__ = ["ColumnFilter", "ColumnScorer", "Factory", "Filter", "KernelScorer", "Plugin", "Scorer", "Wake"]


class Plugin(Protocol):
    """Attributes of all plugins."""

    name: str


class KernelScorer(Plugin, Protocol):
    """A scorer that runs inside the kernels."""

    operation: int
    normalizer: Normalizer
    is_float: bool
    wants_mix: bool

    def parameters(self, resources: Table[str]) -> Sequence[int]:
        """Encode the arguments as integers."""

    def applies(self, spec: GuestSpec) -> bool:
        """Say whether the scorer affects guests of a shape."""


class ColumnFilter(Plugin, Protocol):
    """A built-in filter on marks; returns reason codes, 0 for hosts that pass."""

    cures: frozenset[Wake]
    is_static: bool

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return a code per row, or None if all rows pass."""


class ColumnScorer(Plugin, Protocol):
    """A built-in scorer on marks."""

    normalizer: Normalizer
    is_static: bool

    def applies(self, spec: GuestSpec) -> bool:
        """Say whether the scorer affects guests of a shape."""

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int64s:
        """Return a raw score per row."""


@runtime_checkable
class Filter(Protocol):
    """A third party's filter: returns 0 for a host that passes, else 1 + an index into ``reasons``."""

    name: str
    reasons: Sequence[ReasonKind]

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int64s:
        """Judge the given host rows for one shape."""


@runtime_checkable
class Scorer(Protocol):
    """A third party's scorer: returns one integer per host row; ``normalizer`` says how it is scaled."""

    name: str
    normalizer: Normalizer

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int64s:
        """Score the given host rows for one shape; more is better when the weight is positive."""


Factory: TypeAlias = Callable[[ClusterView, Mapping[str, object]], object]
