"""What a network sees of a guest and a host: shares between 0 and 1 mostly, never more than 8 either way.

Every number is a function of one guest and one host, rounded to 2^-12. So the same pair gives the same features whether
it is looked at alone or with a thousand others, in process or from JSON.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hostler.model import CPU, MEMORY, WHOLE_DEVICE, GuestSpec, amount_of
from hostler.sim.scorer.fragments import EncodedMix, Floats, MixLevels
from hostler.sim.workload import Ints

__all__ = ["FEATURES", "GPU", "STEPS", "CandidateHosts", "GuestNeeds", "features_of", "guest_needs"]

GPU = "gpu"
STEPS = 4096.0
_LARGEST = 8.0
_CPU = 128_000.0  # milli-cores and bytes of the largest host in openb, gpus of its largest hosts
_MEMORY = 2.0**40
_GPUS = 8.0
_NEVER = np.iinfo(np.int64).max
_FINE = 100.0  # milli-gpus: differences of a few dozen decide (one step of fgd's score is 40)

FEATURES = (
    "cpu_size", "cpu_free", "cpu_free_share", "cpu_used_share", "cpu_share_after",
    "memory_size", "memory_free", "memory_free_share", "memory_used_share", "memory_share_after",
    "gpus", "gpus_idle", "gpus_shared", "gpus_that_fit", "gpu_left", "gpu_left_after", "largest_left", "smallest_fit",
    "guest_cpu", "guest_memory", "guest_gpus", "guest_milli", "has_no_gpu", "is_share", "is_constrained",
    "fragment", "fragment_after", "usable", "relief", "relief_fine",
)  # fmt: skip


class GuestNeeds(NamedTuple):
    """What a guest asks for, as far as features look at it."""

    cpu: int  # milli-cores
    memory: int  # bytes
    gpus: int
    milli: int  # of each
    is_constrained: bool


class CandidateHosts(NamedTuple):
    """Hosts as columns."""

    cpu_size: Ints
    cpu_free: Ints
    memory_size: Ints
    memory_free: Ints
    left: Ints  # (hosts, gpus) milli-gpus, -1 where there is none
    model: Ints  # as the mix numbers them


def guest_needs(spec: GuestSpec) -> GuestNeeds:
    """Return what a shape asks for; of several requests for gpus the first counts."""
    gpu = next((device for device in spec.devices if device.kind == GPU), None)
    cpu, memory = amount_of(spec.requests, CPU), amount_of(spec.requests, MEMORY)
    if gpu is None:
        return GuestNeeds(cpu, memory, 0, 0, is_constrained=False)
    return GuestNeeds(cpu, memory, gpu.count, gpu.milli, bool(gpu.models))


def features_of(wish: GuestNeeds, hosts: CandidateHosts, mix: EncodedMix) -> Floats:
    """Return (hosts, features), in the order of ``FEATURES``."""
    columns: dict[str, Floats | float] = {}
    for part in (_room(wish, hosts), _gpus(wish, hosts), _guest(wish), _fragments(wish, hosts, mix)):
        columns.update(part)
    table = np.empty((len(hosts.cpu_free), len(FEATURES)), dtype=np.float64)
    for at, name in enumerate(FEATURES):
        table[:, at] = columns[name]
    rounded: Floats = np.rint(np.clip(table, -_LARGEST, _LARGEST) * STEPS) / STEPS
    return rounded


def _room(wish: GuestNeeds, hosts: CandidateHosts) -> dict[str, Floats]:
    columns: dict[str, Floats] = {}
    for name, size, free, asked, unit in (
        ("cpu", hosts.cpu_size, hosts.cpu_free, wish.cpu, _CPU),
        ("memory", hosts.memory_size, hosts.memory_free, wish.memory, _MEMORY),
    ):
        whole = np.maximum(size, 1)
        columns[f"{name}_size"] = size / unit
        columns[f"{name}_free"] = free / unit
        columns[f"{name}_free_share"] = free / whole
        columns[f"{name}_used_share"] = (size - free) / whole
        columns[f"{name}_share_after"] = (free - asked) / whole
    return columns


def _gpus(wish: GuestNeeds, hosts: CandidateHosts) -> dict[str, Floats]:
    left = hosts.left
    idle = np.maximum(left, 0)
    fits = left >= max(wish.milli, 1)
    total = idle.sum(axis=1)
    return {
        "gpus": (left >= 0).sum(axis=1) / _GPUS,
        "gpus_idle": (left >= WHOLE_DEVICE).sum(axis=1) / _GPUS,
        "gpus_shared": ((left > 0) & (left < WHOLE_DEVICE)).sum(axis=1) / _GPUS,
        "gpus_that_fit": fits.sum(axis=1) / _GPUS,
        "gpu_left": total / (_GPUS * WHOLE_DEVICE),
        "gpu_left_after": (total - wish.gpus * wish.milli) / (_GPUS * WHOLE_DEVICE),
        "largest_left": idle.max(axis=1, initial=0) / WHOLE_DEVICE,
        "smallest_fit": np.where(fits, left, WHOLE_DEVICE).min(axis=1, initial=WHOLE_DEVICE) / WHOLE_DEVICE,
    }


def _guest(wish: GuestNeeds) -> dict[str, float]:
    return {
        "guest_cpu": wish.cpu / _CPU,
        "guest_memory": wish.memory / _MEMORY,
        "guest_gpus": wish.gpus / _GPUS,
        "guest_milli": wish.milli / WHOLE_DEVICE,
        "has_no_gpu": float(wish.gpus == 0),
        "is_share": float(wish.gpus == 1 and wish.milli < WHOLE_DEVICE),
        "is_constrained": float(wish.is_constrained),
    }


def _fragments(wish: GuestNeeds, hosts: CandidateHosts, mix: EncodedMix) -> dict[str, Floats]:
    levels = mix.levels(hosts.left)
    before = mix.fragment(hosts.cpu_free, levels, hosts.model)
    after = _after(wish, hosts, mix, levels)
    relief = before - after
    unit = _GPUS * WHOLE_DEVICE
    return {
        "fragment": before / unit,
        "fragment_after": after / unit,
        "usable": (levels.idle - before) / unit,
        "relief": relief / WHOLE_DEVICE,
        "relief_fine": np.clip(relief / _FINE, -4.0, 4.0),
    }


def _after(wish: GuestNeeds, hosts: CandidateHosts, mix: EncodedMix, levels: MixLevels) -> Floats:
    """Return the fragment with the guest there: a share on the gpu where that is least, whole gpus on the fullest."""
    cpu = hosts.cpu_free - wish.cpu
    left = hosts.left
    if not wish.gpus or not left.shape[1]:
        return mix.fragment(cpu, levels, hosts.model)
    fits = left >= wish.milli
    if wish.gpus == 1 and wish.milli < WHOLE_DEVICE:
        tried = mix.after_share(cpu, left, levels, hosts.model, wish.milli)
        best: Floats = np.where(fits, tried, np.inf).min(axis=1)
        is_none = np.isinf(best)
        return np.where(is_none, mix.fragment(cpu, levels, hosts.model), best) if is_none.any() else best
    order = np.argsort(np.where(fits, left, _NEVER), axis=1, kind="stable")[:, : wish.gpus]
    taken = np.zeros(left.shape, dtype=np.bool_)
    taken[np.arange(len(left))[:, None], order] = True
    rest = np.where(taken & fits, left - wish.milli, left)
    return mix.fragment(cpu, mix.levels(rest), hosts.model)
