"""Fill experiments: guests arrive one by one and never leave. A guest that fits nowhere is dropped at once.

These are the published openb experiments. One step of the engine decides the whole run, because a batch decides exactly
as one guest at a time. The curves are computed from its actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hostler.engine import Engine, Registry
from hostler.engine.meter import CLASS_NAMES, Meter
from hostler.model import CPU, MEMORY, Bind, GuestsArrived, GuestSpec, Host, HostsJoined, MixEntry, Policy, amount_of
from hostler.queries import decide_once, with_mixes
from hostler.sim.arrivals import gpu_millis
from hostler.sim.workload import Ints

__all__ = ["BINS", "KINDS", "Curves", "FillExperiment", "FillPlacements", "FillResult"]
__all__ += ["failure_kind", "measure_fill", "run_fill_experiment"]

BINS = 131  # 0 to 130 percent of the fleet's gpus, requested so far
KINDS = ("cpu_only", "share", "one_gpu", "two_gpu", "four_gpu", "eight_gpu", "other")

Floats = NDArray[np.float64]


class FillExperiment(NamedTuple):
    """One experiment: the hosts, the specs of all pods, and the order in which they arrive."""

    name: str
    hosts: tuple[Host, ...]
    specs: tuple[GuestSpec, ...]
    order: Ints  # indices into specs; a repeated one is a clone
    mix: tuple[MixEntry, ...]  # by which fragmentation is measured


class Curves(msgspec.Struct, frozen=True):
    """Means over the events of each percent of requested gpus."""

    alloc: tuple[float, ...]  # allocated share of all gpus, in percent
    frag: tuple[float, ...]  # fragmented share of all gpus, in percent
    frag_ratio: tuple[float, ...]  # fragmented share of the idle amount, in percent


class FillResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an experiment."""

    workload: str
    policy: str
    seed: int
    events: int
    failed: int
    failed_by_kind: dict[str, int]
    gpu_milli_allocated: int
    gpu_milli_total: int
    cpu_milli_allocated: int
    cpu_milli_total: int
    memory_bytes_allocated: int
    memory_bytes_total: int
    gpus_touched: int
    fragmentation: dict[str, float]
    curves: Curves


def failure_kind(spec: GuestSpec) -> str:
    """Return the kind of guest by which failures are counted."""
    count = sum(device.count for device in spec.devices)
    if not count:
        return "cpu_only"
    if count == 1 and spec.devices[0].milli < 1000:
        return "share"
    return {1: "one_gpu", 2: "two_gpu", 4: "four_gpu", 8: "eight_gpu"}.get(count, "other")


def run_fill_experiment(
    experiment: FillExperiment, policy: Policy, seed: int, registry: Registry | None = None
) -> FillResult:
    """Run one experiment."""
    engine = Engine(with_mixes([policy], experiment.specs), 0, seed, registry=registry)
    engine.apply_many(HostsJoined(hosts=experiment.hosts))
    distinct = {spec: number for number, spec in enumerate(dict.fromkeys(experiment.specs))}
    spec_number = np.array([distinct[spec] for spec in experiment.specs], dtype=np.int64)
    spec_of = spec_number[experiment.order]
    names = tuple(f"pod-{at}" for at in range(len(spec_of)))
    engine.apply_many(GuestsArrived(specs=tuple(distinct), spec_of=tuple(spec_of.tolist()), names=names))
    placed = _placed(engine, experiment.hosts, len(spec_of))
    return measure_fill(experiment, policy, seed, tuple(distinct), spec_of, placed)


class FillPlacements(NamedTuple):
    """Where each arrival went, and on which devices."""

    rows: Ints  # -1 where the guest was dropped
    devices: Ints
    counts: Ints


def _placed(engine: Engine, hosts: Sequence[Host], count: int) -> FillPlacements:
    row_of = {host.name: row for row, host in enumerate(hosts)}
    width = max((len(host.devices) for host in hosts), default=0)
    placed = FillPlacements(
        np.full(count, -1, dtype=np.int64),
        np.zeros((count, max(width, 1)), dtype=np.int64),
        np.zeros(count, dtype=np.int64),
    )
    for action in decide_once(engine, 1, count):
        if isinstance(action, Bind):
            at = int(action.uid[4:])
            placed.rows[at] = row_of[action.host]
            placed.devices[at, : len(action.devices)] = action.devices
            placed.counts[at] = len(action.devices)
    return placed


def measure_fill(
    experiment: FillExperiment,
    policy: Policy,
    seed: int,
    specs: Sequence[GuestSpec],
    spec_of: Ints,
    placed: FillPlacements,
) -> FillResult:
    """Compute figures and curves of an experiment from the placements of its arrivals."""

    def column(values: Sequence[int]) -> Ints:
        return np.array(values, dtype=np.int64)[spec_of]

    is_placed = placed.rows >= 0
    cpu = column([amount_of(spec.requests, CPU) for spec in specs])
    memory = column([amount_of(spec.requests, MEMORY) for spec in specs])
    gpu = column([gpu_millis(spec) for spec in specs])
    milli = column([spec.devices[0].milli if spec.devices else 0 for spec in specs])
    kinds = column([KINDS.index(failure_kind(spec)) for spec in specs])
    failed = np.bincount(kinds[~is_placed], minlength=len(KINDS)).tolist()
    total = 1000 * sum(len(host.devices) for host in experiment.hosts)
    signs = np.ones(len(spec_of), dtype=np.int8)
    meter = Meter(experiment.hosts, experiment.mix)
    amounts = meter.run(placed.rows, signs, cpu, milli, placed.devices, placed.counts)
    touched = {
        (row, device)
        for row, devices, count in zip(
            placed.rows[is_placed].tolist(), placed.devices[is_placed].tolist(), placed.counts[is_placed], strict=True
        )
        for device in devices[:count]
    }
    return FillResult(
        workload=experiment.name,
        policy=policy.name,
        seed=seed,
        events=len(spec_of),
        failed=int((~is_placed).sum()),
        failed_by_kind=dict(zip(KINDS, failed, strict=True)),
        gpu_milli_allocated=int(gpu[is_placed].sum()),
        gpu_milli_total=total,
        cpu_milli_allocated=int(cpu[is_placed].sum()),
        cpu_milli_total=sum(amount_of(host.capacity, CPU) for host in experiment.hosts),
        memory_bytes_allocated=int(memory[is_placed].sum()),
        memory_bytes_total=sum(amount_of(host.capacity, MEMORY) for host in experiment.hosts),
        gpus_touched=len(touched),
        fragmentation=dict(zip(CLASS_NAMES, amounts[-1].tolist(), strict=True)) if len(amounts) else {},
        curves=_curves(gpu, is_placed, amounts, total),
    )


def _curves(gpu: Ints, is_placed: NDArray[np.bool_], amounts: Floats, total: int) -> Curves:
    """Make the published curves: one value per percent of requested gpus.

    Rules of the artifact (``analysis.go`` and ``merge_*_discrete.py``): an event's amounts are logged with two digits,
    and means are taken of what was logged. Another order gives other last digits.
    """
    gpus = total / 1000.0
    arrived = np.round(np.cumsum(gpu) / gpus / 10.0).astype(np.int64)
    alloc = np.cumsum(gpu * is_placed) / gpus / 10.0
    fragment = amounts[:, [0, 1, 3, 4, 5, 6]]
    frag = np.zeros(len(gpu), dtype=np.float64)
    for column in range(fragment.shape[1]):  # summed in this order, as published
        frag = frag + fragment[:, column]
    idle = amounts[:, 7]
    ratio: Floats = np.divide(100.0 * frag, idle, out=np.zeros_like(frag), where=idle > 0)
    return Curves(
        alloc=tuple(float(np.round(mean, 2)) for mean in _by_bin(arrived, _logged(alloc))),
        frag=tuple(float(np.round(100.0 * mean / 1000.0 / gpus, 2)) for mean in _by_bin(arrived, _logged(frag))),
        frag_ratio=tuple(_by_bin(arrived, _logged(ratio))),
    )


def _logged(values: Floats) -> Floats:
    """Round as printing with two digits does: exactly. ``np.round`` scales first, and may land on the other side."""
    return np.array([round(value, 2) for value in values.tolist()], dtype=np.float64)


def _by_bin(arrived: Ints, values: Floats) -> list[float]:
    """Return the mean of each bin; an empty one takes its neighbours'."""
    means = []
    for percent in range(BINS):
        inside = arrived == percent
        if not inside.any():
            inside = np.abs(arrived - percent) <= 1
        means.append(float(values[inside].mean()) if inside.any() else 0.0)
    return means
