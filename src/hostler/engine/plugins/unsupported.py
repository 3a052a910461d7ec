"""Filter ``unsupported``: rejects a guest everywhere if it needs something that this front does not evaluate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.kernels.layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec, Reason
from hostler.model.reasons import ReasonKind, Wake, join_cures


class Unsupported:
    """Keep a guest off all hosts while it needs something that this front does not evaluate."""

    name = "unsupported"
    reasons = (
        ReasonKind(
            plugin="unsupported",
            code="not_supported",
            meaning="The guest asks for something that this front cannot do, or cannot do yet.",
            subject="feature",
            is_resolvable=False,
            cures=frozenset({Wake.GUEST_CHANGED}),
        ),
    )
    cures = join_cures(reasons)
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._reasons = view.reasons

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return one code for all rows; the need itself is read from the spec (``reasons.shape_reason``)."""
        if not spec.unsupported:
            return None
        code = self._reasons.number(Reason(self.name, "not_supported"))
        return np.full(len(rows), code, dtype=np.int16)
