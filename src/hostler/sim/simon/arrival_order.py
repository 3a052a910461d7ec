"""In which order pods arrive: shuffled or by time, tuned to a share of the gpus; and how ties between nodes end.

For the nodes and pods of openb, the published seeds and the published ratio, the orders are the published ones, so that
published runs come out. Everywhere else they are our own: simon's depend on draws that have nothing to do with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hostler.config.times import parse_time
from hostler.errors import InputError, QuantityError
from hostler.model import CPU, MEMORY, GuestSpec, Host, amount_of
from hostler.sim.arrivals import tune_arrival_order
from hostler.sim.openb import PUBLISHED_TUNE
from hostler.sim.simon.cluster_config import CustomConfig
from hostler.sim.simon.folder import SimonPod
from hostler.sim.traces.openb import SEEDS, WORKLOADS, published_arrivals, read_hosts, read_pods
from hostler.sim.workload import Ints

__all__ = ["OrderedArrivals", "order_arrivals"]

_LAST = 2**62  # of a pod without a time of creation


class OrderedArrivals(NamedTuple):
    """Pods in order of arrival, clones included; hosts with their ranks for ties; whether the order is published."""

    pods: tuple[SimonPod, ...]
    hosts: tuple[Host, ...]
    is_published: bool


def order_arrivals(
    pods: Sequence[SimonPod], hosts: Sequence[Host], custom: CustomConfig, data_dir: Path | None = None
) -> OrderedArrivals:
    """Order pods that are sorted by name, and tune them."""
    tuning = custom.workload_tuning_config
    tune = max(tuning.ratio, 0.0)
    published = None
    if custom.shuffle_pod and tune == PUBLISHED_TUNE and tuning.seed in SEEDS:
        published = _published(pods, hosts, tuning.seed, data_dir)
    if published is not None:
        order, ranks = published
    else:
        if not custom.shuffle_pod:
            pods = sorted(pods, key=lambda pod: (_created(pod), pod.guest.name))
        _check_tuning(tune, pods, hosts)
        order, ranks = tune_arrival_order([pod.spec for pod in pods], hosts, tuning.seed, tune)
        if not custom.shuffle_pod:  # what was dropped stays dropped, clones stay at the end
            order = np.concatenate((np.sort(order[: len(pods)]), order[len(pods) :]))
    ranked = tuple(msgspec.structs.replace(h, rank=int(rank)) for h, rank in zip(hosts, ranks.tolist(), strict=True))
    return OrderedArrivals(_cloned(pods, order), ranked, published is not None)


def _check_tuning(tune: float, pods: Sequence[SimonPod], hosts: Sequence[Host]) -> None:
    without = "node has" if not any(host.devices for host in hosts) else ""
    without = without or ("pod asks for" if not any(pod.spec.devices for pod in pods) else "")
    if tune and without:
        hint = "set workloadTuningConfig.ratio to 0"
        raise InputError(f"no {without} gpus, so the demand for them cannot be tuned", hint=hint)


def _cloned(pods: Sequence[SimonPod], order: Ints) -> tuple[SimonPod, ...]:
    arriving: list[SimonPod] = []
    seen: set[int] = set()
    taken = {pod.key for pod in pods}
    clones = 0
    for index in order.tolist():
        if index not in seen:
            arriving.append(pods[index])
            seen.add(index)
            continue
        while (clone := pods[index].clone(f"-tuned-{clones}")).key in taken:  # in a snapshot there are clones already
            clones += 1
        arriving.append(clone)
        clones += 1
    return tuple(arriving)


def _created(pod: SimonPod) -> int:
    if not pod.created:
        return _LAST
    try:
        return parse_time(pod.created)
    except QuantityError as error:
        raise InputError(f"pod {pod.key}: its creation-time: {error.message}", hint=error.hint) from None


def _published(
    pods: Sequence[SimonPod], hosts: Sequence[Host], seed: int, data_dir: Path | None
) -> tuple[Ints, Ints] | None:
    """Return the published order and ranks where these are the nodes and pods of openb and its data is at hand."""
    try:
        ours = read_hosts(data_dir)
        if [_size(host) for host in hosts] != [_size(host) for host in ours]:
            return None
        names = [pod.guest.name for pod in pods]
        needs = [_need(pod.spec) for pod in pods]
        for workload in WORKLOADS:
            if workload.startswith("gpuspec"):  # in the order of default
                continue
            known, specs = read_pods(workload, data_dir)
            if len(known) == len(names) and list(known) == names and [_need(spec) for spec in specs] == needs:
                return published_arrivals(workload, seed, data_dir)
    except InputError:  # the data did not come with this installation
        return None
    return None


def _size(host: Host) -> tuple[str, int, int, int]:
    return host.name, amount_of(host.capacity, CPU), amount_of(host.capacity, MEMORY), len(host.devices)


def _need(spec: GuestSpec) -> tuple[int, int, int, int]:
    """Return what a pod asks for, but for the model: pods that name one arrive in the same order."""
    gpu = spec.devices[0] if spec.devices else None
    cpu, memory = amount_of(spec.requests, CPU), amount_of(spec.requests, MEMORY)
    return cpu, memory, gpu.count if gpu else 0, gpu.milli if gpu else 0
