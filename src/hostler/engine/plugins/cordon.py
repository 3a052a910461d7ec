"""Filter ``cordon``: a cordoned host takes only guests that tolerate it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.kernels.layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec, Reason, Taint
from hostler.model.reasons import ReasonKind, Wake, join_cures

# The taint that Kubernetes lets daemons tolerate a cordon by.
_CORDON_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class Cordon:
    """Keep guests off cordoned hosts."""

    name = "cordon"
    reasons = (
        ReasonKind(
            plugin="cordon",
            code="cordoned",
            meaning="The host takes no new guests until it is uncordoned.",
            is_resolvable=False,
            cures=frozenset({Wake.MARKS_CHANGED, Wake.HOST_JOINED}),
        ),
    )
    cures = join_cures(reasons)
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._marks = view.cluster.marks
        self._code = view.reasons.number(Reason(self.name, "cordoned"))

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return the code for cordoned rows."""
        cordoned = self._marks.cordoned[rows]
        if not cordoned.any() or any(t.tolerates(_CORDON_TAINT) for t in spec.tolerations):
            return None
        return np.where(cordoned, self._code, 0).astype(np.int16)
