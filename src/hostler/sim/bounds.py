"""Upper bounds: how much gpu any scheduler could hand out, even one that knows what is to come.

For experiments in which guests arrive and never leave. Two readings: *free*, where any guest may be turned away, and
*forced*, where all that arrive before some percent of the gpus are asked for must be placed. The first holds for every
policy. The second holds for those that turn nobody away so early, and is the fairer measure of them.

The program is in :mod:`hostler.sim.pattern_lp`. It takes the hosts of a type as one large host, so the true best is a
little lower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from hostler.errors import InputError
from hostler.model import CPU, MEMORY, WHOLE_DEVICE, GuestSpec, Host, amount_of
from hostler.sim.arrivals import gpu_millis
from hostler.sim.filling import Filling
from hostler.sim.pattern_lp import Demand, HostType, solve
from hostler.sim.patterns import cells_of

__all__ = ["Bound", "arrived_until", "gpu_bound"]


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The most that can be allocated of what has arrived so far."""

    workload: str
    at_percent: float | None  # of all gpus asked for so far; None: when all have arrived
    forced_percent: float | None  # all that arrive before this must be placed; None: free
    arrivals: int
    asked_percent: float
    bound_percent: float | None  # None: not everybody who must be placed can be
    gpu_milli_total: int
    rounds: int  # of column generation


def gpu_bound(experiment: Filling, at_percent: float | None = None, forced_percent: float | None = None) -> Bound:
    """Return the bound for an experiment at some point of its arrivals, or at their end."""
    total = 1000 * sum(len(host.devices) for host in experiment.hosts)
    if not total:
        raise InputError("the hosts have no gpus, so there is nothing to bound")
    if forced_percent is not None and at_percent is not None and forced_percent > at_percent:
        raise InputError(
            f"whoever arrives before {forced_percent:g}% cannot be forced at {at_percent:g}%",
            hint="force less, or look at a later point",
        )
    arrived = arrived_until(experiment, at_percent) if at_percent is not None else len(experiment.order)
    kept = arrived_until(experiment, forced_percent) if forced_percent is not None else 0
    specs = [experiment.specs[pod] for pod in experiment.order[:arrived].tolist()]
    solution = solve(_types(experiment.hosts), _demands(specs, kept))
    asked = sum(gpu_millis(spec) for spec in specs)
    most = min(solution.gpu_milli, float(asked))
    return Bound(
        workload=experiment.name,
        at_percent=at_percent,
        forced_percent=forced_percent,
        arrivals=arrived,
        asked_percent=100.0 * asked / total,
        bound_percent=100.0 * most / total if solution.is_met else None,
        gpu_milli_total=total,
        rounds=solution.rounds,
    )


def arrived_until(experiment: Filling, percent: float) -> int:
    """Return how many guests arrive before more than this share of all gpus is asked for."""
    total = 1000 * sum(len(host.devices) for host in experiment.hosts)
    each = np.array([gpu_millis(spec) for spec in experiment.specs], dtype=np.int64)[experiment.order]
    return int(np.searchsorted(np.cumsum(each), percent * total / 100.0, side="right"))


def _types(hosts: Sequence[Host]) -> list[HostType]:
    counts = Counter(_type(host) for host in hosts)
    return [kind._replace(hosts=count) for kind, count in counts.items()]


def _type(host: Host) -> HostType:
    models = {(device.kind, device.model, device.milli) for device in host.devices}
    if len(models) > 1 or any(milli != WHOLE_DEVICE for _, _, milli in models):
        raise InputError(
            f"host {host.name!r} has gpus that differ",
            hint="bounds are for hosts whose gpus are whole and of one model",
        )
    model = next(iter(models))[1] if models else ""
    cpu, memory = amount_of(host.capacity, CPU), amount_of(host.capacity, MEMORY)
    return HostType(1, cpu, memory, len(host.devices), model)


def _demands(specs: Sequence[GuestSpec], kept: int) -> list[Demand]:
    """Return the guests by kind; those who need no gpu count only where they must be placed."""
    most = Counter(_demand(spec) for spec in specs)
    least = Counter(_demand(spec) for spec in specs[:kept])
    return [
        kind._replace(most=count, least=least[kind]) for kind, count in most.items() if kind.gpu_milli or least[kind]
    ]


def _demand(spec: GuestSpec) -> Demand:
    if len(spec.devices) > 1:
        raise InputError("a guest asks for devices of two kinds", hint="bounds are for guests that ask for gpus alone")
    cpu, memory = amount_of(spec.requests, CPU), amount_of(spec.requests, MEMORY)
    if not spec.devices:
        return Demand(cpu, memory, 0, 0, 0, (), 0)
    gpu = spec.devices[0]
    cells = cells_of(gpu.milli) if gpu.milli < WHOLE_DEVICE else 0
    return Demand(cpu, memory, gpu.count, cells, gpu_millis(spec), tuple(sorted(gpu.models)), 0)
