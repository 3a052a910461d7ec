"""Inflation: clones of random pods, to see how many more would fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hostler.model import CPU, GuestSpec, amount_of
from hostler.sim.arrivals import gpu_millis
from hostler.sim.shuffles import draws
from hostler.sim.simon.cluster import Node
from hostler.sim.simon.folder import Pod

__all__ = ["inflated"]

_INFLATION = 21  # the stream of its draws
_MOST = 1_000_000  # clones


def inflated(
    workload: Sequence[Pod], asked: Sequence[Pod], nodes: Sequence[Node], ratio: float, seed: int
) -> list[Pod]:
    """Return clones of the workload, at most ceil(n x ratio) - n, until all that is asked for would pass capacity."""
    wanted = min(math.ceil(len(workload) * ratio) - len(workload), _MOST)
    if not workload or wanted <= 0:
        return []
    cpu_left = sum(amount_of(node.host.capacity, CPU) for node in nodes) - sum(_cpu(pod.spec) for pod in asked)
    gpu_left = 1000 * sum(len(node.gpus) for node in nodes) - sum(gpu_millis(pod.spec) for pod in asked)
    taken = {pod.key for pod in asked}
    clones: list[Pod] = []
    for at, number in enumerate(draws(seed, _INFLATION, wanted).tolist()):
        pod = workload[number % len(workload)]
        cpu_left -= _cpu(pod.spec)
        gpu_left -= gpu_millis(pod.spec)
        if cpu_left < 0 or gpu_left < 0:
            break
        clone = pod.renamed(f"-clone-{at}")
        clones.append(clone if clone.key not in taken else pod.renamed(f"-clone-{wanted + at}"))
    return clones


def _cpu(spec: GuestSpec) -> int:
    return amount_of(spec.requests, CPU)
