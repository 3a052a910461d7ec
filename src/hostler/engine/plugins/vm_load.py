"""Scorers ``utilization`` and ``free_capacity``, which the VM strategies least_loaded and best_fit minimize.

Both score the host before the placement, without scaling: a fraction, and an unbounded integer in which one core, 1000
MiB and 1000 GiB weigh the same (the units of the original service; ``pack`` has comparable ones).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.engine.cluster.tables import Table
from hostler.engine.kernels.layout import OP_FREE_CAPACITY, OP_UTILIZATION
from hostler.engine.view import ClusterView
from hostler.model import CPU, MEMORY, STORAGE, GuestSpec
from hostler.model.policies import Normalizer


class Utilization:
    """0.4 cpu + 0.4 memory + 0.2 storage, each as used share of what the host may give."""

    name = "utilization"
    operation = OP_UTILIZATION
    normalizer: Normalizer = "none"
    is_float = True
    wants_mix = False

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        pass

    def parameters(self, resources: Table[str]) -> Sequence[int]:
        """Encode the three resources."""
        return [resources.number(name) for name in (CPU, MEMORY, STORAGE)]

    def applies(self, spec: GuestSpec) -> bool:
        """Return True: only the host counts."""
        return True


class FreeCapacity(Utilization):
    """Free milli-cores + free MiB of memory + free GiB of storage."""

    name = "free_capacity"
    operation = OP_FREE_CAPACITY
    is_float = False
