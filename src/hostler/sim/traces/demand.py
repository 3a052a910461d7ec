"""What a workload asks for at its peak, were every guest placed on arrival; and hosts for a trace that has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hostler.errors import InputError, QuantityError
from hostler.model import CPU, GUESTS, MEMORY, GuestSpec, Host, amount_of, amounts, parse_resource
from hostler.sim.arrivals import gpu_millis
from hostler.sim.traces.options import MAX_HOSTS, TraceOptions
from hostler.sim.workload import FOREVER, Ints, Workload, numbered

__all__ = ["Peak", "equal_hosts", "fits_nowhere", "peak_of", "placed_on"]

_FILLED = 0.9  # of the tightest resource at the peak, where nobody says how many hosts there are
_LONGEST = np.iinfo(np.int64).max


class Peak(NamedTuple):
    """The most that is asked for at one moment, resource by resource."""

    guests: int
    cpu_milli: float
    memory_bytes: float
    gpu_milli: float


def ends_of(workload: Workload) -> Ints:
    """Return when each guest ends if it starts on arrival; the largest number for never."""
    never = (workload.runs_ns == FOREVER) | (workload.runs_ns > _LONGEST - workload.arrives_ns)
    return np.where(never, _LONGEST, workload.arrives_ns + np.where(never, 0, workload.runs_ns))


def peak_of(workload: Workload) -> Peak:
    """Return the peak demand; who ends at the moment when another one arrives makes room for it."""
    if not len(workload):
        return Peak(0, 0.0, 0.0, 0.0)
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

    return Peak(
        int(np.cumsum(signs).max()),
        most([amount_of(spec.requests, CPU) for spec in workload.specs]),
        most([amount_of(spec.requests, MEMORY) for spec in workload.specs]),
        most([gpu_millis(spec) for spec in workload.specs]),
    )


def fits_nowhere(workload: Workload) -> int:
    """Count the guests that are larger than every host."""
    sizes = {(host.capacity, host.devices) for host in workload.hosts}
    too_large = [not any(_fits(spec, *size) for size in sizes) for spec in workload.specs]
    return int(np.array(too_large, dtype=np.bool_)[workload.spec_of].sum()) if len(workload) else 0


def _fits(spec: GuestSpec, capacity: tuple[tuple[str, int], ...], devices: tuple[object, ...]) -> bool:
    room = dict(capacity)
    if any(amount > room.get(name, 0) for name, amount in spec.requests if name != GUESTS):
        return False
    return sum(request.count for request in spec.devices) <= len(devices)


def equal_hosts(count: int, cpu_milli: int, memory_bytes: int) -> tuple[Host, ...]:
    """Return hosts of one size."""
    if not 0 < count <= MAX_HOSTS:
        raise InputError(f"there cannot be {count:,} hosts", hint=f"from 1 to {MAX_HOSTS:,}")
    capacity = amounts({CPU: cpu_milli, MEMORY: memory_bytes})
    return tuple(Host(name=name, uid=name, capacity=capacity) for name in numbered("host", count))


def placed_on(
    workload: Workload, options: TraceOptions, *, cpu_milli: int, memory_bytes: int, count: int | None = None
) -> Workload:
    """Put a trace on the hosts that the options name, else on its own, else on hosts of a usual size and number.

    Without any number there are so many that 90 % of the tightest resource are asked for at the peak.
    """
    if workload.hosts and not options.has_hosts:
        return workload
    if options.hosts_file is not None:
        return workload  # whoever reads all formats puts it on those
    cpu_milli = _size(CPU, options.host_cpu, cpu_milli)
    memory_bytes = _size(MEMORY, options.host_memory, memory_bytes)
    wanted = options.hosts if options.hosts is not None else count
    if wanted is None:
        peak = peak_of(workload)
        share = max(peak.cpu_milli / cpu_milli, peak.memory_bytes / memory_bytes)
        wanted = max(math.ceil(share / _FILLED), 1)
    workload = workload.on(equal_hosts(wanted, cpu_milli, memory_bytes))
    if too_large := fits_nowhere(workload):
        options.note(f"{too_large:,} of {len(workload):,} guests are larger than every host")
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
