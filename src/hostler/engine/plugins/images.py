"""Scorer ``image_locality``: prefer hosts that already have a guest's images.

kube-scheduler's ImageLocality: the sum of the sizes of present images, each scaled by the share of hosts that have it
(so that one host with a rare image does not attract all guests), between 23 MB and 1000 MB per container, as 0 to 100.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.kernels.layout import Int64s
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec
from hostler.model.policies import Normalizer

_MB = 1024 * 1024
_LEAST = 23 * _MB
_MOST = 1000 * _MB


class ImageLocality:
    """Prefer hosts that have the guest's images."""

    name = "image_locality"
    normalizer: Normalizer = "none"
    is_static = True
    looks_at_all_hosts = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._cluster = view.cluster

    def applies(self, spec: GuestSpec) -> bool:
        """Say whether the guest names images."""
        return bool(spec.images)

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int64s:
        """Return 0 to 100 by the present images."""
        marks = self._cluster.marks
        hosts = len(self._cluster)
        sums = np.zeros(len(rows), dtype=np.int64)
        for image in spec.images:
            sizes = marks.image_sizes(image)
            if sizes:
                share = len(sizes) / hosts
                scaled = {row: int(float(size) * share) for row, size in sizes.items()}
                sums += np.fromiter((scaled.get(row, 0) for row in rows.tolist()), dtype=np.int64, count=len(rows))
        most = _MOST * len(spec.images)
        scores: Int64s = 100 * (np.clip(sums, _LEAST, most) - _LEAST) // (most - _LEAST)
        return scores
