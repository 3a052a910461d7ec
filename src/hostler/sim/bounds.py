"""Upper bounds: how much gpu any scheduler could allocate, even one that knows all future arrivals.

For experiments in which guests arrive and never leave. There are two kinds. *Free*: any guest may be rejected.
*Forced*: all guests that arrive before some percent of the gpus are requested must be placed. The first holds for every
policy. The second holds for policies that reject no guest so early, and is the fairer measure of them.

A linear program assigns guests to types of hosts, and gpus to cutting patterns. It takes the hosts of a type as one
large host, so the true best is a little lower. Variables: how many guests of a kind go to a type of host, and how many
gpus of a type are cut by a pattern. Rows: no more guests than there are; cpu and memory of all hosts of a type
together; gpus of a type; shares of each size within what patterns yield; and at most one guest per host that takes more
than half of its gpus. A guest that must be placed and is not costs a penalty, so the program always has a solution.

A cutting pattern says which shares fit on one device together. Patterns come by column generation from an unbounded
knapsack (Gilmore and Gomory, 1961). A device is cut into 100 cells of 10 thousandths; a share that is no multiple of a
cell is rounded down, so that what is computed stays an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hostler.errors import InputError, InternalError
from hostler.sim.extras import missing_extra
from hostler.sim.workload import Ints

if TYPE_CHECKING:
    import highspy
from collections import Counter

import msgspec

from hostler.model import CPU, MEMORY, WHOLE_DEVICE, GuestSpec, Host, amount_of
from hostler.sim.arrivals import gpu_millis
from hostler.sim.fill_experiment import FillExperiment

__all__ = [
    "CELLS",
    "GpuBound",
    "GuestDemand",
    "HostType",
    "Solution",
    "best_patterns",
    "cells_of",
    "count_arrivals_until",
    "gpu_bound",
    "single_patterns",
    "solve_gpu_bound",
]  # fmt: skip

CELLS = 100  # of one gpu
_CELL_MILLI = 10

Floats = NDArray[np.float64]


def cells_of(milli: int) -> int:
    """Return the whole cells that a share takes; a bound cannot be had for shares that take none."""
    if milli < _CELL_MILLI:
        raise InputError(f"a guest asks for {milli} thousandths of a gpu", hint="bounds are for shares of 10 and more")
    return milli // _CELL_MILLI


def single_patterns(sizes: Sequence[int]) -> Ints:
    """Return one pattern per size, with as many shares of it as fit: columns to begin with."""
    return np.diag([CELLS // size for size in sizes]).astype(np.int64)


def best_patterns(sizes: Sequence[int], values: Floats) -> tuple[Ints, Floats]:
    """Return for each row of values the pattern that is worth most, and its worth.

    ``sizes`` are in cells; ``values[row, i]`` is what one share of ``sizes[i]`` is worth, never negative.
    """
    rows = len(values)
    worth = np.zeros((rows, CELLS + 1), dtype=np.float64)
    choice = np.full((rows, CELLS + 1), -1, dtype=np.int64)  # the last share put in; -1: this cell stays empty
    for room in range(1, CELLS + 1):
        worth[:, room] = worth[:, room - 1]
        for index, size in enumerate(sizes):
            if size <= room:
                with_it = worth[:, room - size] + values[:, index]
                is_better = with_it > worth[:, room]
                worth[is_better, room] = with_it[is_better]
                choice[is_better, room] = index
    patterns = np.zeros((rows, len(sizes)), dtype=np.int64)
    for row in range(rows):
        room = CELLS
        while room > 0:
            index = int(choice[row, room])
            if index < 0:
                room -= 1
            else:
                patterns[row, index] += 1
                room -= sizes[index]
    return patterns, worth[:, CELLS]


_PENALTY = 1000.0  # in gpus, for one guest that must be placed and is not: far above any gain from leaving it out
_SMALL = 1e-6  # gpus, or guests
_MOST_ROUNDS = 500
_CORE, _GIB = 1000.0, 2.0**30  # units that keep numbers near one


class HostType(NamedTuple):
    """Equal hosts; amounts are those of one."""

    hosts: int
    cpu_millis: int
    memory_bytes: int
    gpus: int
    model: str


class GuestDemand(NamedTuple):
    """Equal guests: how many there are at most, and how many must be placed."""

    cpu_millis: int
    memory_bytes: int
    gpus: int
    cells: int  # of each gpu; 0: whole gpus, or none
    gpu_milli: int  # all together
    models: tuple[str, ...]
    most: int
    least: int = 0


class Solution(NamedTuple):
    """The bound that the program found: never below the best possible allocation."""

    gpu_milli: float
    is_met: bool  # whether all that must be placed can be
    rounds: int


def solve_gpu_bound(types: Sequence[HostType], demands: Sequence[GuestDemand]) -> Solution:
    """Return an upper bound of the gpus that guests can get."""
    program = _Program(types, demands)
    for round_number in range(1, _MOST_ROUNDS + 1):
        objective, duals, unmet = program.solve()
        values = np.maximum(duals[program.share_rows], 0.0)
        patterns, worth = best_patterns(program.sizes, values)
        gain = np.maximum(worth - duals[program.gpu_rows], 0.0)
        # A pattern can be used at most once per gpu, so nothing better than this exists (Lagrange).
        slack = float(gain @ program.gpus)
        if slack <= _SMALL * max(program.gpus.sum(), 1.0):
            unplaced = float(unmet.sum())
            return Solution(1000.0 * (objective + slack + _PENALTY * unplaced), unplaced < _SMALL, round_number)
        for row in np.flatnonzero(gain > 0):
            program.add_pattern(int(row), patterns[row])
    raise InternalError("the bound was not found: column generation does not end")


class _Program:
    """The program in HiGHS; rows are fixed, columns of patterns are added."""

    def __init__(self, types: Sequence[HostType], demands: Sequence[GuestDemand]) -> None:
        self.sizes = sorted({demand.cells for demand in demands if demand.cells})
        self.gpus: Floats = np.array([kind.hosts * kind.gpus for kind in types], dtype=np.float64)
        self._types, self._demands = types, demands
        kinds, sizes, guests = len(types), len(self.sizes), len(demands)
        starts = np.cumsum([guests, kinds, kinds, kinds, kinds])  # behind: guests, cpu, memory, gpus, large ones
        self._cpu_rows, self._memory_rows, self.gpu_rows, self._large_rows = (
            start + np.arange(kinds) for start in starts[:4]
        )
        self.share_rows = starts[4] + np.arange(kinds * sizes).reshape(kinds, sizes)
        self._highs = _new_highs()
        self._add_rows()
        for number, demand in enumerate(demands):
            self._add_guests(number, demand)
        self._unmet = [number for number, demand in enumerate(demands) if demand.least]
        self._first_unmet = int(self._highs.getNumCol())
        for number in self._unmet:
            self._add_column(-_PENALTY, [(number, 1.0)])
        for kind in range(kinds):
            for pattern in single_patterns(self.sizes):
                self.add_pattern(kind, pattern)

    def solve(self) -> tuple[float, Floats, Floats]:
        """Return the objective, what one more of each row is worth, and which guests that must be placed are not."""
        import highspy

        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise InternalError(f"the bound was not found: {self._highs.getModelStatus()}")
        solution = self._highs.getSolution()
        unmet = np.array(solution.col_value[self._first_unmet : self._first_unmet + len(self._unmet)], dtype=np.float64)
        duals = np.array(solution.row_dual, dtype=np.float64)
        return float(self._highs.getInfo().objective_function_value), duals, unmet

    def add_pattern(self, kind: int, pattern: NDArray[np.int64]) -> None:
        """Add a pattern for gpus of a type."""
        shares = [(int(self.share_rows[kind, i]), -float(pattern[i])) for i in np.flatnonzero(pattern)]
        self._add_column(0.0, [(int(self.gpu_rows[kind]), 1.0), *shares])

    def _add_rows(self) -> None:
        limits = [
            [float(demand.most) for demand in self._demands],
            [kind.hosts * kind.cpu_millis / _CORE for kind in self._types],
            [kind.hosts * kind.memory_bytes / _GIB for kind in self._types],
            self.gpus.tolist(),
            [float(kind.hosts) for kind in self._types],
            [0.0] * self.share_rows.size,
        ]
        upper = np.concatenate([np.array(limit, dtype=np.float64) for limit in limits])
        lower = np.full(len(upper), -np.inf)
        lower[: len(self._demands)] = [float(demand.least) for demand in self._demands]
        nothing = np.zeros(0, dtype=np.int32)
        self._highs.addRows(len(upper), lower, upper, 0, nothing, nothing, np.zeros(0, dtype=np.float64))

    def _add_guests(self, number: int, demand: GuestDemand) -> None:
        for kind, host in enumerate(self._types):
            if not _fits(demand, host):
                continue
            entries = [
                (number, 1.0),
                (int(self._cpu_rows[kind]), demand.cpu_millis / _CORE),
                (int(self._memory_rows[kind]), demand.memory_bytes / _GIB),
            ]
            if demand.cells:
                size = self.sizes.index(demand.cells)
                entries.append((int(self.share_rows[kind, size]), float(demand.gpus)))
            elif demand.gpus:
                entries.append((int(self.gpu_rows[kind]), float(demand.gpus)))
            if 2 * demand.gpus > host.gpus and not demand.cells:
                entries.append((int(self._large_rows[kind]), 1.0))
            self._add_column(demand.gpu_milli / 1000.0, entries)

    def _add_column(self, worth: float, entries: list[tuple[int, float]]) -> None:
        used = [(row, value) for row, value in entries if value]
        rows = np.array([row for row, _ in used], dtype=np.int32)
        values = np.array([value for _, value in used], dtype=np.float64)
        self._highs.addCol(worth, 0.0, np.inf, len(used), rows, values)


def _fits(demand: GuestDemand, host: HostType) -> bool:
    """Say whether one such guest fits on an empty host."""
    return (
        demand.cpu_millis <= host.cpu_millis
        and demand.memory_bytes <= host.memory_bytes
        and demand.gpus <= host.gpus
        and (not demand.models or not demand.gpus or host.model in demand.models)
    )


def _new_highs() -> highspy.Highs:
    try:
        import highspy
    except ImportError:
        raise missing_extra("bounds", "highspy", "sim") from None
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)  # the same answer on every machine
    highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
    return highs


class GpuBound(msgspec.Struct, frozen=True, kw_only=True):
    """The most that can be allocated to the guests that have arrived so far."""

    workload: str
    at_percent: float | None  # of all gpus, requested so far; None: when all have arrived
    forced_percent: float | None  # all that arrive before this must be placed; None: free
    arrivals: int
    asked_percent: float
    bound_percent: float | None  # None: not all guests that must be placed can be
    gpu_milli_total: int
    rounds: int  # of column generation


def gpu_bound(
    experiment: FillExperiment, at_percent: float | None = None, forced_percent: float | None = None
) -> GpuBound:
    """Return the bound for an experiment at some point of its arrivals, or at their end."""
    total = 1000 * sum(len(host.devices) for host in experiment.hosts)
    if not total:
        raise InputError("the hosts have no gpus, so there is nothing to bound")
    if forced_percent is not None and at_percent is not None and forced_percent > at_percent:
        raise InputError(
            f"guests that arrive before {forced_percent:g}% cannot be forced at {at_percent:g}%",
            hint="force less, or look at a later point",
        )
    arrived = count_arrivals_until(experiment, at_percent) if at_percent is not None else len(experiment.order)
    kept = count_arrivals_until(experiment, forced_percent) if forced_percent is not None else 0
    specs = [experiment.specs[pod] for pod in experiment.order[:arrived].tolist()]
    solution = solve_gpu_bound(_types(experiment.hosts), _demands(specs, kept))
    asked = sum(gpu_millis(spec) for spec in specs)
    most = min(solution.gpu_milli, float(asked))
    return GpuBound(
        workload=experiment.name,
        at_percent=at_percent,
        forced_percent=forced_percent,
        arrivals=arrived,
        asked_percent=100.0 * asked / total,
        bound_percent=100.0 * most / total if solution.is_met else None,
        gpu_milli_total=total,
        rounds=solution.rounds,
    )


def count_arrivals_until(experiment: FillExperiment, percent: float) -> int:
    """Return how many guests arrive before more than this share of all gpus is requested."""
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


def _demands(specs: Sequence[GuestSpec], kept: int) -> list[GuestDemand]:
    """Return the guests by kind; those who need no gpu count only where they must be placed."""
    most = Counter(_demand(spec) for spec in specs)
    least = Counter(_demand(spec) for spec in specs[:kept])
    return [
        kind._replace(most=count, least=least[kind]) for kind, count in most.items() if kind.gpu_milli or least[kind]
    ]


def _demand(spec: GuestSpec) -> GuestDemand:
    if len(spec.devices) > 1:
        raise InputError("a guest asks for devices of two kinds", hint="bounds are for guests that ask for gpus alone")
    cpu, memory = amount_of(spec.requests, CPU), amount_of(spec.requests, MEMORY)
    if not spec.devices:
        return GuestDemand(cpu, memory, 0, 0, 0, (), 0)
    gpu = spec.devices[0]
    cells = cells_of(gpu.milli) if gpu.milli < WHOLE_DEVICE else 0
    return GuestDemand(cpu, memory, gpu.count, cells, gpu_millis(spec), tuple(sorted(gpu.models)), 0)
