"""Read the openb trace and the published FGD curves from ``data/``, as values of the model.

Used by the benchmarks and by the tests that hold the engine against published results. Sources and licences stand
beside the data. Pods and nodes are sorted by name, because the arrival orders are indices into the sorted lists.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hostler.engine import find_policy, typical_mix
from hostler.model import Device, DeviceRequest, GuestArrived, GuestSpec, Host, Policy, amounts
from hostler.model import Guest as ModelGuest

__all__ = ["BINS", "PUBLISHED_NAMES", "SEEDS", "WORKLOADS", "Workload", "published_curve", "read_workload"]

DATA = Path(__file__).resolve().parent.parent / "data"
WORKLOADS = ("default", "gpuspec33", "gpushare60")
SEEDS = (42, 43, 44)
BINS = 131  # 0 to 130 percent of the cluster's gpus asked for so far

# The gpuspec workloads differ from default in model constraints alone, so they arrive in the same order.
_ORDER_OF = {"default": "default", "gpuspec33": "default", "gpushare60": "gpushare60"}
_GUESTS_PER_HOST = 1001  # the pod limit of every node in the published experiments
_MIB = 2**20

# Our policies by the names under which the artifact of the paper publishes them.
PUBLISHED_NAMES: Mapping[str, str] = {
    "random": "01-Random",
    "dot_product": "02-DotProd",
    "gpu_clustering": "03-GpuClustering",
    "gpu_packing": "04-GpuPacking",
    "gpu_best_fit": "05-BestFit",
    "fgd": "06-FGD",
}


class Workload(NamedTuple):
    """One experiment: the cluster, the shapes of all pods by name, and the order in which they arrive."""

    hosts: tuple[Host, ...]
    specs: tuple[GuestSpec, ...]  # one per pod; equal ones are the same object
    order: tuple[int, ...]  # indices into specs; a repeated index is a clone

    def arriving(self) -> list[GuestSpec]:
        """Return the shapes in order of arrival."""
        return [self.specs[i] for i in self.order]

    def events(self) -> Iterable[GuestArrived]:
        """Make one event per arrival."""
        for at, index in enumerate(self.order):
            yield GuestArrived(guest=ModelGuest(name=f"pod-{at}", uid=f"pod-{at}", spec=self.specs[index]))

    def policy(self, name: str) -> Policy:
        """Return a built-in policy; ``fgd`` measures by the typical mix of all pods, as published."""
        policy = find_policy(name)
        return msgspec.structs.replace(policy, mix=typical_mix(self.specs)) if name == "fgd" else policy


def read_workload(name: str = "default", seed: int = 42) -> Workload:
    """Read one workload with the arrival order and the host ranks of one seed."""
    order, ranks = _arrivals(_ORDER_OF[name], seed)
    hosts = tuple(_host(row, rank) for row, rank in zip(_nodes(), ranks, strict=True))
    return Workload(hosts, _specs(name), order)


def published_curve(workload: str, policy: str, seed: int, metric: str = "allo") -> tuple[float, ...]:
    """Return a published curve: the metric (allo, frag, frag_ratio) per percent of gpus asked for."""
    key = (f"openb_pod_list_{workload}", PUBLISHED_NAMES[policy], str(seed))
    return _curves(metric)[key]


@cache
def _nodes() -> tuple[dict[str, str], ...]:
    return tuple(sorted(_rows(DATA / "openb" / "gpu_nodes.csv.gz"), key=lambda row: row["sn"]))


@cache
def _specs(workload: str) -> tuple[GuestSpec, ...]:
    pods = sorted(_rows(DATA / "openb" / f"pods_{workload}.csv.gz"), key=lambda row: row["name"])
    known: dict[GuestSpec, GuestSpec] = {}
    return tuple(known.setdefault(spec, spec) for spec in map(_spec, pods))


@cache
def _curves(metric: str) -> dict[tuple[str, str, str], tuple[float, ...]]:
    return {
        (row["workload"], row["sc_policy"], row["seed"]): tuple(float(row[str(k)]) for k in range(BINS))
        for row in _rows(DATA / "fgd" / f"analysis_{metric}_discrete.csv.gz")
    }


def _arrivals(name: str, seed: int) -> tuple[tuple[int, ...], Sequence[int]]:
    with np.load(DATA / "openb" / f"arrivals_{name}.npz") as arrays:
        return tuple(arrays[f"order_{seed}"].tolist()), arrays[f"nodeprio_{seed}"].tolist()


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _host(row: Mapping[str, str], rank: int) -> Host:
    size = {"cpu": int(row["cpu_milli"]), "memory": int(row["memory_mib"]) * _MIB, "guests": _GUESTS_PER_HOST}
    gpus = (Device("gpu", row["model"]),) * int(row["gpu"])
    return Host(name=row["sn"], uid=row["sn"], capacity=amounts(size), devices=gpus, rank=rank)


def _spec(row: Mapping[str, str]) -> GuestSpec:
    requests = amounts({"cpu": int(row["cpu_milli"]), "memory": int(row["memory_mib"]) * _MIB})
    models = tuple(row["gpu_spec"].split("|")) if row["gpu_spec"] else ()
    count = int(row["num_gpu"])
    gpus = (DeviceRequest("gpu", count, int(row["gpu_milli"]), models),) if count else ()
    return GuestSpec(requests=requests, devices=gpus)
