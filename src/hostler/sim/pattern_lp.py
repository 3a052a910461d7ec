"""The linear program behind the bounds: guests to types of hosts, and gpus to cutting patterns.

Variables: how many guests of a kind go to a type of host, and how many gpus of a type are cut by a pattern. Rows: no
more guests than there are; cpu and memory of all hosts of a type together; gpus of a type; shares of each size within
what patterns yield; and at most one guest per host that takes more than half of its gpus. Whoever must be placed and is
not costs a penalty, so that the program always has a solution. Patterns come by column generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hostler.errors import InternalError
from hostler.sim.extras import missing_extra
from hostler.sim.patterns import best_patterns, single_patterns

if TYPE_CHECKING:
    import highspy

__all__ = ["Demand", "HostType", "Solution", "solve"]

Floats = NDArray[np.float64]

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


class Demand(NamedTuple):
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
    """What the program says: never less than the best there is."""

    gpu_milli: float
    is_met: bool  # whether all that must be placed can be
    rounds: int


def solve(types: Sequence[HostType], demands: Sequence[Demand]) -> Solution:
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

    def __init__(self, types: Sequence[HostType], demands: Sequence[Demand]) -> None:
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
        """Return the objective, what one more of each row is worth, and who of those that must be placed is not."""
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

    def _add_guests(self, number: int, demand: Demand) -> None:
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


def _fits(demand: Demand, host: HostType) -> bool:
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
