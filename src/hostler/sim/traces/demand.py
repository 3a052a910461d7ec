"""What a workload asks for at its peak, were every guest placed on arrival; and hosts for a trace that has none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hostler.errors import InputError, QuantityError
from hostler.model import CPU, GUESTS, MEMORY, WHOLE_DEVICE, Device, GuestSpec, Host, amount_of, amounts, parse_resource
from hostler.model.vocabulary import plural
from hostler.sim.arrivals import gpu_millis
from hostler.sim.traces.options import MAX_HOSTS, TraceOptions
from hostler.sim.workload import FOREVER, Ints, Workload, numbered_names

__all__ = ["PeakDemand", "count_oversized_guests", "equal_hosts", "peak_of", "too_large_text", "with_chosen_hosts"]

_FILLED = 0.9  # of the tightest resource at the peak, if the number of hosts is not given
_GPU = "gpu"
_USUAL_GPUS = 8  # of a GPU server
_LONGEST = np.iinfo(np.int64).max


class PeakDemand(NamedTuple):
    """The largest demand at one moment, for each resource."""

    guests: int
    cpu_milli: float
    memory_bytes: float
    gpu_milli: float


def ends_of(workload: Workload) -> Ints:
    """Return when each guest ends if it starts on arrival; the largest number for never."""
    never = (workload.runs_ns == FOREVER) | (workload.runs_ns > _LONGEST - workload.arrives_ns)
    return np.where(never, _LONGEST, workload.arrives_ns + np.where(never, 0, workload.runs_ns))


def peak_of(workload: Workload) -> PeakDemand:
    """Return the peak demand; who ends at the moment when another one arrives makes room for it."""
    if not len(workload):
        return PeakDemand(0, 0.0, 0.0, 0.0)
    ends = ends_of(workload)
    leaving = np.flatnonzero(ends < _LONGEST)
    times = np.concatenate((workload.arrives_ns, ends[leaving]))
    guests = np.concatenate((np.arange(len(workload)), leaving))
    signs = np.concatenate((np.ones(len(workload), dtype=np.int64), np.full(len(leaving), -1, dtype=np.int64)))
    # A guest that ends when it arrives must not leave first: its own end sorts behind its arrival.
    at_once = np.concatenate((np.zeros(len(workload), dtype=np.bool_), workload.runs_ns[leaving] == 0))
    order = np.lexsort((at_once * 2 + (signs > 0), times))
    guests, signs = guests[order], signs[order]
    specs = workload.spec_of[guests]

    def most(values: Sequence[int]) -> float:
        return float(np.cumsum(np.array(values, dtype=np.float64)[specs] * signs).max())

    return PeakDemand(
        int(np.cumsum(signs).max()),
        most([amount_of(spec.requests, CPU) for spec in workload.specs]),
        most([amount_of(spec.requests, MEMORY) for spec in workload.specs]),
        most([gpu_millis(spec) for spec in workload.specs]),
    )


def count_oversized_guests(workload: Workload) -> int:
    """Count the guests that are larger than every host."""
    sizes = {(host.capacity, host.devices) for host in workload.hosts}
    too_large = [not any(_fits(spec, *size) for size in sizes) for spec in workload.specs]
    return int(np.array(too_large, dtype=np.bool_)[workload.spec_of].sum()) if len(workload) else 0


def too_large_text(count: int, guests: int) -> str:
    """Say how many guests fit nowhere."""
    return f"{count:,} of {plural(guests, 'guest')} {'is' if count == 1 else 'are'} larger than every host"


def _fits(spec: GuestSpec, capacity: tuple[tuple[str, int], ...], devices: tuple[object, ...]) -> bool:
    room = dict(capacity)
    if any(amount > room.get(name, 0) for name, amount in spec.requests if name != GUESTS):
        return False
    return sum(request.count for request in spec.devices) <= len(devices)


def equal_hosts(
    count: int, cpu_milli: int, memory_bytes: int, gpus: int = 0, models: Sequence[str] = ("",)
) -> tuple[Host, ...]:
    """Return hosts of one size; host n has GPUs of the n-th model, and the models repeat."""
    if not 0 < count <= MAX_HOSTS:
        raise InputError(f"there cannot be {count:,} hosts", hint=f"from 1 to {MAX_HOSTS:,}")
    capacity = amounts({CPU: cpu_milli, MEMORY: memory_bytes})
    devices = {model: (Device(_GPU, model),) * gpus for model in models}
    return tuple(
        Host(name=name, uid=name, capacity=capacity, devices=devices[models[at % len(models)]])
        for at, name in enumerate(numbered_names("host", count))
    )


def gpus_per_host(workload: Workload) -> int:
    """Return how many GPUs a host needs for every guest to fit; the usual number, if that is enough."""
    most = max(
        (request.count for spec in workload.specs for request in spec.devices if request.kind == _GPU), default=0
    )
    return max(most, _USUAL_GPUS) if most else 0


def gpu_models(workload: Workload, count: int) -> list[str]:
    """Return a GPU model for each of so many hosts, in proportion to the demand for the models.

    A guest that takes any of several models counts for the first one; a guest that takes every model counts for none.
    """
    demand: Counter[str] = Counter()
    for spec, guests in zip(workload.specs, np.bincount(workload.spec_of, minlength=len(workload.specs)), strict=True):
        for request in spec.devices:
            if request.kind == _GPU and request.models:
                demand[request.models[0]] += int(guests) * request.count * request.milli
    if not demand:
        return [""] * count
    total = demand.total()
    given = dict.fromkeys(sorted(demand), 0)
    models = []
    for at in range(1, count + 1):
        # The model that lags furthest behind its share is next; the first by name among equals.
        model = max(given, key=lambda name: demand[name] * at - given[name] * total)
        given[model] += 1
        models.append(model)
    return models


def with_chosen_hosts(
    workload: Workload, options: TraceOptions, *, cpu_milli: int, memory_bytes: int, count: int | None = None
) -> Workload:
    """Put a trace on the hosts that the options name, else on its own, else on hosts of a usual size and number.

    Without a number there are so many hosts that the peak demand is 90 % of the scarcest resource. If guests ask for
    GPUs, the hosts have GPUs.
    """
    if workload.hosts and not options.has_hosts:
        return workload
    if options.hosts_file is not None:
        return workload  # read_trace puts it on those hosts
    cpu_milli = _size(CPU, options.host_cpu, cpu_milli)
    memory_bytes = _size(MEMORY, options.host_memory, memory_bytes)
    gpus = gpus_per_host(workload) if options.host_gpus is None else options.host_gpus
    wanted = options.hosts if options.hosts is not None else count
    if wanted is None:
        peak = peak_of(workload)
        share = max(peak.cpu_milli / cpu_milli, peak.memory_bytes / memory_bytes)
        if gpus:
            share = max(share, peak.gpu_milli / (gpus * WHOLE_DEVICE))
        wanted = max(math.ceil(share / _FILLED), 1)
    models = gpu_models(workload, wanted) if gpus and wanted <= MAX_HOSTS else [""]
    workload = workload.with_hosts(equal_hosts(wanted, cpu_milli, memory_bytes, gpus, models or [""]))
    if too_large := count_oversized_guests(workload):
        options.note(too_large_text(too_large, len(workload)))
    return workload


def _size(resource: str, text: str, usual: int) -> int:
    if not text:
        return usual
    try:
        size = parse_resource(resource, text)
    except QuantityError as error:
        raise QuantityError(f"the hosts' {resource}: {error.message}", hint=error.hint) from None
    if not size:
        raise QuantityError(f"the hosts' {resource} is zero", hint="give them some")
    return size
