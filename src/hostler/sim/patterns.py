"""Cutting patterns of a gpu: which shares fit on one device together, and which set of them is worth most.

An unbounded knapsack for column generation (Gilmore and Gomory, 1961). A device is cut into 100 cells of 10
thousandths. A share that is no multiple of a cell is rounded down, so that what is computed with patterns stays an
upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hostler.errors import InputError
from hostler.sim.workload import Ints

__all__ = ["CELLS", "best_patterns", "cells_of", "single_patterns"]

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
