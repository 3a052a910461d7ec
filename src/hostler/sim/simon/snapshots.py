"""Snapshots of a cluster in simon's files: node-snapshot.csv, pod-snapshot.csv and pod-snapshot.yaml."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import msgspec

from hostler.config import write_yaml
from hostler.errors import InputError
from hostler.manifests import guest_to_pod
from hostler.manifests.pods.gpus import GPU_INDEX
from hostler.model import CPU, MEMORY, amount_of
from hostler.model.hosts import HOSTNAME
from hostler.sim.simon.cluster import RunningPod, SimonCluster, SimonNode
from hostler.sim.simon.folder import SimonPod
from hostler.sim.traces.kubernetes import CREATION_TIME

__all__ = ["node_csv", "pod_csv", "pod_yaml"]

UNSCHEDULED = "simon/pod-unscheduled"
_NODE_IP = "node-ip"  # the label
_MIB = 2**20
_GPUS = 8  # that have columns of their own
# Memory of one gpu in MiB, by model, as the drivers report it; of other models it is not known.
_GPU_MEMORY = {
    "P4": 7611, "2080": 11019, "1080": 11178, "M40": 11448, "T4": 15109, "V100M16": 16160, "P100": 16280,
    "A10": 22731, "3090": 24268, "V100M32": 32510, "A100": 81251,
}  # fmt: skip

_NODE_COLUMNS = (
    "name", "ip", "model", "cpu", "gpu", "memory_mib", "gpu_mem_mib_each", "num_pod", "cpu_milli_left",
    "memory_mib_left",
    *(f"gpu_{what}_left_{at}" for at in range(_GPUS) for what in ("milli", "mem_mib")),
    "gpu_milli_left", "gpu_mem_mib_left",
)  # fmt: skip
_POD_COLUMNS = (
    "pod", "namespace", "ip", "cpu_milli", "memory_mib", "num_gpu", "gpu_index", "gpu_mem_ratio", "gpu_milli", "model",
    "gpu_mem_mib_each", "gpu_mem_mib", "gpu_type_req", "creation_time",
)  # fmt: skip


def node_csv(cluster: SimonCluster) -> str:
    """Return what every node has and has left."""
    return _table(_NODE_COLUMNS, (_node_row(node) for node in cluster.nodes))


def pod_csv(cluster: SimonCluster) -> str:
    """Return what every running pod holds, and on which gpus."""
    return _table(_POD_COLUMNS, (_pod_row(one, cluster.nodes[one.row]) for one in _by_name(cluster)))


def pod_yaml(cluster: SimonCluster, failed: Iterable[SimonPod]) -> str:
    """Return the pods as objects that run again where they ran; those that failed are marked."""
    objects = [_placed(one, cluster.nodes[one.row]) for one in _by_name(cluster)]
    objects += (_object(pod, {UNSCHEDULED: "true"}, {}) for pod in failed)
    return "---\n".join(write_yaml(data) for data in objects)


def _by_name(cluster: SimonCluster) -> list[RunningPod]:
    return [cluster.running[key] for key in sorted(cluster.running)]


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()


def _node_row(node: SimonNode) -> list[object]:
    model = _model(node)
    each = _GPU_MEMORY.get(model, 0)
    capacity = node.host.capacity
    cores = -(-amount_of(capacity, CPU) // 1000)  # whole ones, rounded up
    row: list[object] = [node.host.name, _ip(node), model, cores, len(node.gpus), amount_of(capacity, MEMORY) // _MIB]
    row += [each, len(node.pods), node.cpu, node.memory // _MIB]
    for at in range(_GPUS):
        left = node.gpus[at] if at < len(node.gpus) else 0
        row += [left, left * each // 1000]
    return [*row, sum(node.gpus), sum(left * each // 1000 for left in node.gpus)]


def _pod_row(one: RunningPod, node: SimonNode) -> list[object]:
    spec = one.pod.spec
    each = _GPU_MEMORY.get(_model(node), 0)
    wanted = "|".join(spec.devices[0].models) if spec.devices else ""
    return [
        one.pod.guest.name, spec.namespace, _ip(node), amount_of(spec.requests, CPU),
        amount_of(spec.requests, MEMORY) // _MIB, len(one.devices), "-".join(map(str, one.devices)), one.milli // 10,
        one.milli, _model(node), each, one.milli * each // 1000, wanted or "<none>", one.pod.created,
    ]  # fmt: skip


def _placed(one: RunningPod, node: SimonNode) -> dict[str, object]:
    marks = {GPU_INDEX: "-".join(map(str, one.devices))} if one.devices else {}
    return _object(one.pod, marks, {HOSTNAME: node.host.name})


def _object(pod: SimonPod, marks: dict[str, str], selector: dict[str, str]) -> dict[str, object]:
    """Write a pod, with more annotations and a narrower selector."""
    spec = pod.spec
    if selector:
        narrow = tuple(sorted({**dict(spec.host_selector), **selector}.items()))
        spec = msgspec.structs.replace(spec, host_selector=narrow)
    data = guest_to_pod(msgspec.structs.replace(pod.guest, spec=spec, host="", on_devices=(), uid=""))
    metadata = data["metadata"]
    if not isinstance(metadata, dict):
        raise InputError(f"pod {pod.key} cannot be written")
    created = {CREATION_TIME: pod.created} if pod.created else {}
    annotations = {**metadata.get("annotations", {}), **created, **marks}
    if annotations:
        metadata["annotations"] = annotations
    return data


def _model(node: SimonNode) -> str:
    return (node.host.devices[0].model if node.host.devices else "") or "CPU"


def _ip(node: SimonNode) -> str:
    return dict(node.host.labels).get(_NODE_IP, "")
