"""Filter ``taints`` and scorer ``preferred_taints``: taints keep guests off hosts unless the guests tolerate them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.kernels.layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec, Reason
from hostler.model.policies import Normalizer
from hostler.model.reasons import ReasonKind, Wake, join_cures
from hostler.model.selectors import untolerated_taints

_UNTOLERATED = "untolerated_taint"


class Taints:
    """Keep a guest off hosts with a NoSchedule or NoExecute taint that it does not tolerate."""

    name = "taints"
    reasons = (
        ReasonKind(
            plugin="taints",
            code="untolerated_taint",
            meaning="The host has a taint that the guest does not tolerate.",
            subject="taint",
            is_resolvable=False,
            cures=frozenset({Wake.MARKS_CHANGED, Wake.HOST_JOINED}),
        ),
    )
    cures = join_cures(reasons)
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._marks = view.cluster.marks
        self._reasons = view.reasons

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return a code that names the first untolerated taint."""
        lists = self._marks.taint_lists.values
        if len(lists) == 1:
            return None
        codes = np.zeros(len(lists), dtype=np.int16)
        texts = self._marks.taint_texts if self._marks.names_taints else None
        for number, taints in enumerate(lists):
            bad = untolerated_taints(spec.tolerations, taints)
            if bad and texts is None:
                codes[number] = self._reasons.number(Reason(self.name, _UNTOLERATED))
            elif bad and texts is not None:
                text = bad[0].text()
                codes[number] = self._reasons.code_by_number(self.name, _UNTOLERATED, texts.find(text), text)
        return codes[self._marks.taints[rows]]


class PreferredTaints:
    """Prefer hosts with fewer PreferNoSchedule taints that the guest does not tolerate."""

    name = "preferred_taints"
    normalizer: Normalizer = "reverse_max"
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._marks = view.cluster.marks
        self.idle_score = 100 if args.get("always", False) else None  # what all hosts score where none has one

    def applies(self, spec: GuestSpec) -> bool:
        """Say whether any host has such a taint."""
        return any(untolerated_taints(spec.tolerations, taints, soft=True) for taints in self._marks.present_taints())

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int64s:
        """Count the untolerated soft taints."""
        lists = self._marks.taint_lists.values
        counts = np.array(
            [len(untolerated_taints(spec.tolerations, taints, soft=True)) for taints in lists], dtype=np.int64
        )
        return counts[self._marks.taints[rows]]
