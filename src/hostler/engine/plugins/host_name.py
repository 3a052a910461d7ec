"""Filter ``host_name``: a guest that names its host goes only there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.kernels.layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec, Reason
from hostler.model.reasons import ReasonKind, Wake, join_cures


class HostName:
    """Keep a guest off all hosts but the one it names."""

    name = "host_name"
    reasons = (
        ReasonKind(
            plugin="host_name",
            code="not_the_named_host",
            meaning="The guest names another host.",
            is_resolvable=False,
            cures=frozenset({Wake.HOST_JOINED}),
        ),
    )
    cures = join_cures(reasons)
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._marks = view.cluster.marks
        self._code = view.reasons.number(Reason(self.name, "not_the_named_host"))

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return the code for rows of another name."""
        if not spec.host_name:
            return None
        named = self._marks.rows_named((spec.host_name,), rows)
        return np.where(named, 0, self._code).astype(np.int16)
