"""What a cluster looks like after a step of an experiment: what is allocated, and what of the idle gpus is of use."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from hostler.engine.meter import CLASS_NAMES, Meter
from hostler.model import CPU, MEMORY, WHOLE_DEVICE, MixEntry, amount_of
from hostler.sim.arrivals import gpu_millis
from hostler.sim.fill_experiment import KINDS, failure_kind
from hostler.sim.simon.cluster import SimonCluster
from hostler.sim.simon.folder import SimonPod

__all__ = ["CLASSES", "StageSummary", "summarize_stage"]

# As the artifact prints them.
CLASSES = {
    "q1": "q1_lack_both",
    "q2": "q2_lack_gpu",
    "q3": "q3_satisfied",
    "q4": "q4_lack_cpu",
    "xl": "xl_satisfied",
    "xr": "xr_lack_cpu",
    "no_access": "no_access",
}


class StageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster after one step, by simon's tag."""

    tag: str
    pods: int  # that run
    arrived: int  # in this step
    failed: int  # of them
    failed_by_kind: dict[str, int]
    milli_cpu: tuple[int, int]  # allocated, and all
    memory_bytes: tuple[int, int]
    gpus: tuple[int, int]  # in use, and all
    milli_gpu: tuple[int, int]
    fragmentation: dict[str, float]  # milli-gpus by class; "idle" and "frag" at the end


def summarize_stage(
    tag: str, cluster: SimonCluster, mix: Sequence[MixEntry], arrived: int, failed: Sequence[SimonPod]
) -> StageSummary:
    """Look at a cluster."""
    nodes = cluster.nodes
    specs = [running.pod.spec for running in cluster.running.values()]
    kinds = [failure_kind(pod.spec) for pod in failed]
    gpus = sum(len(node.gpus) for node in nodes)
    return StageSummary(
        tag=tag,
        pods=len(specs),
        arrived=arrived,
        failed=len(failed),
        failed_by_kind={kind: kinds.count(kind) for kind in KINDS},
        milli_cpu=(
            sum(amount_of(spec.requests, CPU) for spec in specs),
            sum(amount_of(node.host.capacity, CPU) for node in nodes),
        ),
        memory_bytes=(
            sum(amount_of(spec.requests, MEMORY) for spec in specs),
            sum(amount_of(node.host.capacity, MEMORY) for node in nodes),
        ),
        gpus=(sum(left < WHOLE_DEVICE for node in nodes for left in node.gpus), gpus),
        milli_gpu=(sum(map(gpu_millis, specs)), WHOLE_DEVICE * gpus),
        fragmentation=_fragmentation(cluster, mix),
    )


def _fragmentation(cluster: SimonCluster, mix: Sequence[MixEntry]) -> dict[str, float]:
    if not mix or not any(node.gpus for node in cluster.nodes):
        return {}
    running = list(cluster.running.values())
    width = max(1, max(len(node.gpus) for node in cluster.nodes))
    # One event that changes nothing stands in front, so that an empty cluster is measured too.
    rows = np.array([-1, *(one.row for one in running)], dtype=np.int64)
    cpu = np.array([0, *(amount_of(one.pod.spec.requests, CPU) for one in running)], dtype=np.int64)
    milli = np.array([0, *(one.milli for one in running)], dtype=np.int64)
    counts = np.array([0, *(len(one.devices) for one in running)], dtype=np.int64)
    devices = np.zeros((len(rows), width), dtype=np.int64)
    for at, one in enumerate(running, 1):
        devices[at, : len(one.devices)] = one.devices
    marks = np.zeros(len(rows), dtype=np.int8)
    marks[-1] = 1
    meter = Meter([node.host for node in cluster.nodes], mix)
    amounts = meter.run(rows, np.ones(len(rows), dtype=np.int8), cpu, milli, devices, counts, marks)[-1].tolist()
    by_class = dict(zip(CLASS_NAMES, amounts, strict=True))
    idle = by_class.pop("idle")
    frag = sum(amount for name, amount in by_class.items() if name != "q3")
    return {**{CLASSES[name]: amount for name, amount in by_class.items()}, "idle": idle, "frag": frag}
