"""Which pods are moved: the three deschedule policies, over the nodes as they are.

A node that was chosen from is looked at again with the pod gone; in simon ``fragMultiPod`` kept the old amounts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

from hostler.model import CPU, MixEntry, amount_of
from hostler.sim.simon.cluster import RunningPod, SimonNode

__all__ = ["choose_victims", "typical_fragments"]

_CPU_BAR = 2000  # milli-cores: a node with less left cannot give its gpus away
_GPU_BAR = 500  # milli: a gpu with more left is worth the move


def choose_victims(nodes: Sequence[SimonNode], mix: Sequence[MixEntry], policy: str, ratio: float) -> list[str]:
    """Return the pods to move, in order, by namespace and name."""
    most = math.ceil(ratio * sum(len(node.pods) for node in nodes))
    if policy == "cosSim":
        found = _least_alike(nodes)
    else:
        found = _fragmenting(nodes, mix, again=policy == "fragMultiPod")
    return [key for key, _ in zip(found, range(most), strict=False)]


def typical_fragments(node: SimonNode, mix: Sequence[MixEntry], cpu: int, gpus: Sequence[int]) -> float:
    """Return how much of a node's idle gpu the typical pods cannot use, with so much left, in milli."""
    idle = sum(gpus)
    model = node.host.devices[0].model if node.host.devices else ""
    total = 0.0
    for entry in mix:
        amount = idle
        if entry.device_millis and gpus and (not entry.models or model in entry.models) and cpu >= entry.cpu_millis:
            fitting = [left for left in gpus if left >= entry.device_millis]
            if len(fitting) >= entry.device_count:
                amount = idle - sum(fitting)
        total += entry.share * amount
    return total


def _least_alike(nodes: Sequence[SimonNode]) -> Iterator[str]:
    """Yield, of nodes without cpu but with gpu, the pod that is least like what the node would then have free."""
    short = [node for node in nodes if node.cpu < _CPU_BAR and any(left > _GPU_BAR for left in node.gpus)]
    for node in sorted(short, key=lambda node: (-sum(node.gpus), *_by_rank(node))):
        alike = {key: _likeness(node, running) for key, running in node.pods.items()}
        victim = min((key for key in alike if alike[key] < 1.0), key=lambda key: alike[key], default=None)
        if victim is not None:
            yield victim


def _likeness(node: SimonNode, running: RunningPod) -> float:
    """Return the cosine between what is free without the pod, and what the pod asks for; 1 where one is nothing."""
    cpu, gpu = amount_of(running.pod.spec.requests, CPU), running.milli * len(running.devices)
    free_cpu, free_gpu = node.cpu + cpu, sum(node.gpus) + gpu
    size = math.hypot(cpu, gpu) * math.hypot(free_cpu, free_gpu)
    return (cpu * free_cpu + gpu * free_gpu) / size if size else 1.0


def _fragmenting(nodes: Sequence[SimonNode], mix: Sequence[MixEntry], *, again: bool) -> Iterator[str]:
    """Yield, of the most fragmented nodes first, the pod whose going lowers that most; ``again``: nodes come back."""
    left = [_Left(node, mix) for node in nodes]
    heap = [(-one.fragments, *_by_rank(one.node), at) for at, one in enumerate(left)]
    heapq.heapify(heap)
    while heap:
        *_, at = heapq.heappop(heap)
        one = left[at]
        victim = one.worst()
        if victim is None:
            continue
        one.give_back(victim)
        yield victim.pod.key
        if again:
            heapq.heappush(heap, (-one.fragments, *_by_rank(one.node), at))


class _Left:
    """What a node would have left while pods are being chosen."""

    def __init__(self, node: SimonNode, mix: Sequence[MixEntry]) -> None:
        self.node = node
        self._mix = mix
        self._cpu = node.cpu
        self._gpus = list(node.gpus)
        self._pods = dict(node.pods)
        self.fragments = typical_fragments(node, mix, self._cpu, self._gpus)

    def worst(self) -> RunningPod | None:
        """Return the pod whose going lowers the fragments most, by 1 milli at least; of equals the first."""
        found, most = None, 0
        for running in self._pods.values():
            gain = int(self.fragments - typical_fragments(self.node, self._mix, *self._without(running)))
            if gain > most:
                found, most = running, gain
        return found

    def give_back(self, running: RunningPod) -> None:
        """Take a pod off."""
        self._cpu, self._gpus = self._without(running)
        del self._pods[running.pod.key]
        self.fragments = typical_fragments(self.node, self._mix, self._cpu, self._gpus)

    def _without(self, running: RunningPod) -> tuple[int, list[int]]:
        gpus = list(self._gpus)
        for device in running.devices:
            gpus[device] += running.milli
        return self._cpu + amount_of(running.pod.spec.requests, CPU), gpus


def _by_rank(node: SimonNode) -> tuple[int, str]:
    return node.host.rank, node.host.name
