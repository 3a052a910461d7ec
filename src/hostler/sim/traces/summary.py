"""What a trace holds, in numbers: sizes, times, demand against capacity, kinds and gangs."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from hostler.model import CPU, MEMORY, amount_of
from hostler.sim.fill_experiment import failure_kind
from hostler.sim.traces.demand import count_oversized_guests, peak_of
from hostler.sim.workload import FOREVER, Workload

__all__ = ["ResourceDemand", "TraceSummary", "summarize_trace"]

_HOUR_NS = 3600 * 10**9
_SECOND_NS = 10**9


class ResourceDemand(msgspec.Struct, frozen=True):
    """One resource: the capacity of the hosts, and the peak demand."""

    capacity: float
    peak: float

    @property
    def share(self) -> float | None:
        """Return the peak as a share of the capacity; None where there is none."""
        return self.peak / self.capacity if self.capacity else None


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in numbers; the peak is the largest demand at one moment, if all guests are placed on arrival."""

    name: str
    guests: int
    specs: int
    sizes: int  # distinct requests, devices included
    tenants: int
    hosts: int
    host_sizes: int
    first_arrival_s: float
    span_s: float
    arrivals_per_hour: float | None
    leaving: int  # guests whose end is known
    duration_median_s: float | None
    duration_p95_s: float | None
    peak_guests: int
    cpu: ResourceDemand  # milli-cores
    memory: ResourceDemand  # bytes
    gpu: ResourceDemand  # thousandths of GPUs
    fit_nowhere: int
    kinds: dict[str, int]
    gangs: int
    in_gangs: int


def summarize_trace(workload: Workload) -> TraceSummary:
    """Count and measure a workload."""
    peak = peak_of(workload)
    lasts = workload.runs_ns[workload.runs_ns != FOREVER] / _SECOND_NS
    per_spec = np.bincount(workload.spec_of, minlength=len(workload.specs)).tolist()
    kinds: Counter[str] = Counter()
    for spec, count in zip(workload.specs, per_spec, strict=True):
        kinds[failure_kind(spec)] += count
    hosts = workload.hosts
    span = workload.span_ns
    return TraceSummary(
        name=workload.name,
        guests=len(workload),
        specs=len(workload.specs),
        sizes=len({(spec.requests, spec.devices) for spec in workload.specs}),
        tenants=len({spec.tenant for spec in workload.specs if spec.tenant}),
        hosts=len(hosts),
        host_sizes=len({(host.capacity, host.devices) for host in hosts}),
        first_arrival_s=float(workload.arrives_ns[0]) / _SECOND_NS if len(workload) else 0.0,
        span_s=span / _SECOND_NS,
        arrivals_per_hour=len(workload) * _HOUR_NS / span if span else None,
        leaving=len(lasts),
        duration_median_s=float(np.median(lasts)) if len(lasts) else None,
        duration_p95_s=float(np.percentile(lasts, 95)) if len(lasts) else None,
        peak_guests=peak.guests,
        cpu=ResourceDemand(sum(amount_of(host.capacity, CPU) for host in hosts), peak.cpu_milli),
        memory=ResourceDemand(sum(amount_of(host.capacity, MEMORY) for host in hosts), peak.memory_bytes),
        gpu=ResourceDemand(sum(device.milli for host in hosts for device in host.devices), peak.gpu_milli),
        fit_nowhere=count_oversized_guests(workload),
        kinds={kind: count for kind, count in kinds.most_common() if count},
        gangs=len(workload.gangs),
        in_gangs=int((workload.gang_of >= 0).sum()),
    )
