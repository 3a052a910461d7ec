"""Scorers for shared GPUs: ``fgd``, ``gpu_best_fit``, ``dot_product``, ``gpu_clustering``, ``gpu_packing``.

The integer scores equal those of the FGD artifact (Weng et al., USENIX ATC 2023); the arithmetic is in the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.engine.cluster.tables import Table
from hostler.engine.kernels.layout import (
    OP_DOT_PRODUCT,
    OP_FGD,
    OP_GPU_BEST_FIT,
    OP_GPU_CLUSTERING,
    OP_GPU_PACKING,
)
from hostler.engine.view import ClusterView
from hostler.model import GuestSpec
from hostler.model.policies import Normalizer


class _GpuScorer:
    """The common part: no arguments, and every guest is scored."""

    name = "gpu"
    operation = OP_FGD
    normalizer: Normalizer = "none"
    is_float = False
    wants_mix = False

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        pass

    def parameters(self, resources: Table[str]) -> Sequence[int]:
        """Return no parameters."""
        return ()

    def applies(self, spec: GuestSpec) -> bool:
        """Return True."""
        return True


class Fgd(_GpuScorer):
    """Prefer hosts where the guest fragments the free GPUs least, measured by the policy's typical mix."""

    name = "fgd"
    operation = OP_FGD
    wants_mix = True


class GpuBestFit(_GpuScorer):
    """Prefer hosts with the least cpu and gpu left after the placement."""

    name = "gpu_best_fit"
    operation = OP_GPU_BEST_FIT
    normalizer: Normalizer = "min_max"


class DotProduct(_GpuScorer):
    """Prefer hosts whose free vector has the smallest product with the request."""

    name = "dot_product"
    operation = OP_DOT_PRODUCT


class GpuClustering(_GpuScorer):
    """Prefer hosts that have only guests with the same number of GPUs."""

    name = "gpu_clustering"
    operation = OP_GPU_CLUSTERING


class GpuPacking(_GpuScorer):
    """Prefer partly used gpus, then partly used hosts, then small free hosts."""

    name = "gpu_packing"
    operation = OP_GPU_PACKING
