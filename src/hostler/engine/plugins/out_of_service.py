"""Filter ``out_of_service``: rejects every guest of a policy whose own plugin failed.

A front writes it into a policy in place of its plugins. So guests of the policy have a reason, and nothing calls the
plugin any more.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.kernels.layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec, Reason
from hostler.model.reasons import ReasonKind, Wake, join_cures


class OutOfService:
    """Keep all guests of a policy off all hosts while a plugin of the policy is out of service; ``why`` says so."""

    name = "out_of_service"
    reasons = (
        ReasonKind(
            plugin="out_of_service",
            code="policy_out_of_service",
            meaning="A plugin of the guest's policy failed, so the policy places no guest.",
            subject="text",
            is_resolvable=False,
            cures=frozenset({Wake.POLICY_CHANGED, Wake.GUEST_CHANGED}),
        ),
    )
    cures = join_cures(reasons)
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._code = view.reasons.number(Reason(self.name, "policy_out_of_service", str(args.get("why", ""))))

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s:
        """Return the code for all rows."""
        return np.full(len(rows), self._code, dtype=np.int16)
