"""Filter ``unsupported``: a guest that needs what nobody evaluates here is refused everywhere, and told why."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.framework import Wake
from hostler.engine.kernels_layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec, Reason


class Unsupported:
    """Keep a guest off all hosts while it needs something that this front does not evaluate."""

    name = "unsupported"
    cures = frozenset({Wake.GUEST_CHANGED})
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._reasons = view.reasons

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return one code for all rows; what is not supported is read from the spec (``reasons.shape_reason``)."""
        if not spec.unsupported:
            return None
        code = self._reasons.number(Reason(self.name, "not_supported"))
        return np.full(len(rows), code, dtype=np.int16)
