"""Turn the actions of an openb run into the figures that the FGD artifact publishes.

The published curve has one value per percent of the cluster's gpus asked for so far: the mean, over the arrivals in
that percent, of the share of all gpus that is allocated after the arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bench.openb import BINS, Workload
from hostler.engine import Engine
from hostler.model import CPU, MEMORY, Action, Bind, GuestSpec, HostsJoined, amount_of

__all__ = ["Totals", "allocation_curve", "place_all", "totals"]


class Totals(NamedTuple):
    """What is allocated at the end of a run."""

    gpu_millis: int
    cpu_millis: int
    memory_bytes: int
    gpus_touched: int
    events: int
    failed: int


def place_all(workload: Workload, policy: str) -> list[Action]:
    """Let the engine decide every arrival once, in order; a refused pod is never tried again."""
    engine = Engine([workload.policy(policy)])
    engine.apply(HostsJoined(hosts=workload.hosts))
    for event in workload.events():
        engine.apply(event)
    return engine.step(now=1)


def totals(workload: Workload, actions: Sequence[Action]) -> Totals:
    """Add up what the actions allocate."""
    placed = [
        (spec, action) for spec, action in zip(workload.arriving(), actions, strict=True) if isinstance(action, Bind)
    ]
    return Totals(
        gpu_millis=sum(_gpu_millis(spec) for spec, _ in placed),
        cpu_millis=sum(amount_of(spec.requests, CPU) for spec, _ in placed),
        memory_bytes=sum(amount_of(spec.requests, MEMORY) for spec, _ in placed),
        gpus_touched=len({(action.host, device) for _, action in placed for device in action.devices}),
        events=len(actions),
        failed=len(actions) - len(placed),
    )


def allocation_curve(workload: Workload, actions: Sequence[Action]) -> tuple[float, ...]:
    """Return the allocated share of all gpus, in percent, per percent of gpus asked for."""
    asked = np.array([_gpu_millis(spec) for spec in workload.arriving()])
    placed = np.array([isinstance(action, Bind) for action in actions])
    per_percent = 10 * sum(len(host.devices) for host in workload.hosts)  # milli-gpus in one percent of the cluster
    percent_arrived = np.round(np.cumsum(asked) / per_percent).astype(np.int64)
    percent_allocated = np.round(np.cumsum(asked * placed) / per_percent, 2)
    curve = []
    for percent in range(BINS):
        in_bin = percent_arrived == percent
        if not in_bin.any():
            in_bin = np.abs(percent_arrived - percent) <= 1
        curve.append(float(np.round(percent_allocated[in_bin].mean(), 2)))
    return tuple(curve)


def _gpu_millis(spec: GuestSpec) -> int:
    return sum(device.count * device.milli for device in spec.devices)
