"""openb, the trace of a GPU cluster (Alibaba, 2023): its nodes, its 17 pod lists, and the published orders of arrival.

Source and licence of the data stand beside it. Pods and nodes are sorted by name, because orders are indices into the
sorted lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from hostler.errors import InputError, UnknownNameError
from hostler.model import Device, DeviceRequest, GuestSpec, Host, amounts
from hostler.sim.datasets import find_data, read_rows
from hostler.sim.traces.demand import with_chosen_hosts
from hostler.sim.traces.files import read_columns, read_csv_header, reject_duplicates
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import Ints, Workload

__all__ = ["SEEDS", "USUAL_HOST", "WORKLOADS", "published_arrivals", "read_hosts", "read_openb", "read_pods"]
__all__ += ["read_timed", "recognizes_openb", "spec_of_row"]

SEEDS = range(42, 52)
_CONSTRAINED = ("gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33")
WORKLOADS = (
    "default", "cpu050", "cpu100", "cpu200", "cpu250", "gpushare40", "gpushare60", "gpushare80", "gpushare100",
    *_CONSTRAINED, "multigpu20", "multigpu30", "multigpu40", "multigpu50",
)  # fmt: skip

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIME_COLUMNS = ("creation_time", "deletion_time")
_NODES_BESIDE = ("openb_node_list_gpu_node.csv", "gpu_nodes.csv")  # as the source calls it, and as we do
_GUESTS_PER_HOST = 1001  # the pod limit of every node in the published experiments
_MIB = 2**20
_SECOND = 10**9
_MOST = 2**40  # of a number in the files, so that amounts in bytes stay within 64 bits
_MAX_GPUS = 64
USUAL_HOST = (96_000, 384 * 2**30)  # of equal hosts, if the options ask for them
_MOST_SECONDS = 2**32  # of a time, so that it stays within 64 bits as nanoseconds


def read_hosts(data_dir: Path | None = None, ranks: Sequence[int] = ()) -> tuple[Host, ...]:
    """Return the 1,213 GPU nodes by name, with ranks for ties where given."""
    nodes = _nodes(find_data("openb/gpu_nodes.csv.gz", data_dir))
    if not len(ranks):
        return nodes
    return tuple(msgspec.structs.replace(h, rank=int(rank)) for h, rank in zip(nodes, ranks, strict=True))


@lru_cache(maxsize=4)
def _nodes(path: Path) -> tuple[Host, ...]:
    rows = sorted(read_rows(path, _NODE_COLUMNS), key=lambda row: row["sn"])
    return tuple(_host(row, path) for row in rows)


@lru_cache(maxsize=32)
def read_pods(workload: str, data_dir: Path | None = None) -> tuple[tuple[str, ...], tuple[GuestSpec, ...]]:
    """Return the names and specs of all pods of a workload by name; equal specs are one object."""
    rows = _pod_rows(workload, data_dir)
    known: dict[GuestSpec, GuestSpec] = {}
    specs = tuple(known.setdefault(spec, spec) for spec in (spec_of_row(row, workload) for row in rows))
    return tuple(row["name"] for row in rows), specs


def _pod_rows(workload: str, data_dir: Path | None) -> list[dict[str, str]]:
    if workload not in WORKLOADS:
        raise UnknownNameError(f"openb has no workload {workload!r}", hint=f"one of {', '.join(WORKLOADS)}")
    is_constrained = workload in _CONSTRAINED
    path = find_data(f"openb/pods_{'default' if is_constrained else workload}.csv.gz", data_dir)
    rows = sorted(read_rows(path, _POD_COLUMNS), key=lambda row: row["name"])
    if is_constrained:
        path = find_data("openb/models_gpuspec.csv.gz", data_dir)
        models = {row["name"]: row[workload] for row in read_rows(path, ("name", *_CONSTRAINED))}
        rows = [{**row, "gpu_spec": models.get(row["name"], "")} for row in rows]
    return rows


def published_arrivals(workload: str, seed: int, data_dir: Path | None = None) -> tuple[Ints, Ints] | None:
    """Return the published order (indices of pods, a repeated one is a clone) and the ranks of hosts, where known."""
    if seed not in SEEDS:
        return None
    name = "default" if workload in _CONSTRAINED else workload  # these arrive in the same order
    with np.load(find_data(f"openb/arrivals_{name}.npz", data_dir), allow_pickle=False) as planes:
        order, ranks = (
            planes[f"{kind}_{seed}_high"].astype(np.int64) << 8 | planes[f"{kind}_{seed}_low"]
            for kind in ("order", "rank")
        )
    return order, ranks


def read_timed(workload: str = "default", data_dir: Path | None = None) -> Workload:
    """Return the pods with their own times of creation and deletion."""
    rows = _pod_rows(workload, data_dir)
    names, specs = read_pods(workload, data_dir)
    if "creation_time" not in rows[0]:
        raise InputError(
            f"the pods of {workload} have no times", hint="the multigpu lists have none; take another workload"
        )
    distinct = {spec: number for number, spec in enumerate(dict.fromkeys(specs))}
    created = np.array([int(row["creation_time"]) for row in rows], dtype=np.int64)
    deleted = np.array([int(row["deletion_time"]) for row in rows], dtype=np.int64)
    return Workload(
        name=f"openb/{workload}",
        hosts=read_hosts(data_dir),
        specs=tuple(distinct),
        spec_of=np.array([distinct[spec] for spec in specs], dtype=np.int64),
        names=names,
        arrives_ns=created * _SECOND,
        runs_ns=np.maximum(deleted - created, 1) * _SECOND,
    ).by_arrival()


def recognizes_openb(path: Path) -> bool:
    """Say whether a file is a pod list of the trace."""
    return set(_POD_COLUMNS) <= set(read_csv_header(path))


def read_openb(path: Path, options: TraceOptions) -> Workload:
    """Return the pods of a pod list of the source, with their own times, on the nodes of the file beside it.

    Where there are no nodes beside it, the 1,213 GPU nodes of the published experiments are the hosts.
    """
    columns = read_columns(path, (*_POD_COLUMNS, *_TIME_COLUMNS))
    reject_duplicates(columns, "name")
    created, deleted = (columns.wholes(name, most=_MOST_SECONDS) for name in _TIME_COLUMNS)
    columns.refuse(deleted < created, "the pod is deleted before it is created", "deletion_time is the later one")
    fields = [name for name in (*_POD_COLUMNS, "gpu_spec") if name in columns]
    texts = [columns.text(name) for name in fields]
    known: dict[GuestSpec, int] = {}
    spec_of = [
        known.setdefault(spec_of_row(dict(zip(fields, row, strict=True)), columns.where(at)), len(known))
        for at, row in enumerate(zip(*texts, strict=True))
    ]
    beside = (path.parent / f"{name}{packed}" for name in _NODES_BESIDE for packed in ("", ".gz"))
    nodes = next((one for one in beside if one.is_file()), None)
    workload = Workload(
        name=path.name.split(".")[0],
        hosts=_nodes_beside(nodes) if nodes is not None else read_hosts(options.data_dir),
        specs=tuple(known),
        spec_of=np.array(spec_of, dtype=np.int64),
        names=columns.text("name"),
        arrives_ns=created * _SECOND,
        runs_ns=np.maximum(deleted - created, 1) * _SECOND,
    ).by_arrival()
    return with_chosen_hosts(workload, options, cpu_milli=USUAL_HOST[0], memory_bytes=USUAL_HOST[1])


def _nodes_beside(path: Path) -> tuple[Host, ...]:
    columns = read_columns(path, _NODE_COLUMNS)
    reject_duplicates(columns, "sn")
    rows = enumerate(zip(*(columns.text(name) for name in _NODE_COLUMNS), strict=True))
    hosts = (_host(dict(zip(_NODE_COLUMNS, row, strict=True)), columns.where(at)) for at, row in rows)
    return tuple(sorted(hosts, key=lambda host: host.name))


def _host(row: Mapping[str, str], path: Path | str) -> Host:
    size = {"cpu": _number(row, "cpu_milli", path), "memory": _number(row, "memory_mib", path) * _MIB}
    gpus = (Device("gpu", row["model"]),) * _number(row, "gpu", path, most=_MAX_GPUS)
    return Host(name=row["sn"], uid=row["sn"], capacity=amounts({**size, "guests": _GUESTS_PER_HOST}), devices=gpus)


def spec_of_row(row: Mapping[str, str], where: str | Path) -> GuestSpec:
    """Return what a pod of the trace asks for."""
    requests = {"cpu": _number(row, "cpu_milli", where), "memory": _number(row, "memory_mib", where) * _MIB}
    models = tuple(row["gpu_spec"].split("|")) if row.get("gpu_spec") else ()
    count = _number(row, "num_gpu", where, most=_MAX_GPUS)
    milli = _number(row, "gpu_milli", where, most=1000)
    gpus = (DeviceRequest("gpu", count, milli, models),) if count else ()
    return GuestSpec(requests=amounts(requests), devices=gpus)


def _number(row: Mapping[str, str], column: str, where: str | Path, most: int = _MOST) -> int:
    text = row[column]
    if not text.isascii() or not text.isdigit() or int(text) > most:
        name = row.get("name") or row.get("sn")
        raise InputError(
            f"{where}: {column} of {name!r} is {text[:40]!r}, not a whole number from 0 to {most}",
            hint="write a plain number",
        )
    return int(text)
