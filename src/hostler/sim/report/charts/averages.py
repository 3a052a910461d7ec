"""Curves of several runs as one line and a band: the mean, and the least and most of all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hostler.sim.report.runs import Run
from hostler.sim.scenarios.outcome import Series

__all__ = ["ChartLine", "arrival_lines", "last_arrival", "time_lines"]

Floats = NDArray[np.float64]
MOST_POINTS = 240  # a chart is about 450 points wide: more would not be seen


class ChartLine(NamedTuple):
    """What is drawn for one policy."""

    policy: str
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    runs: int

    def at(self, x: float) -> float | None:
        """Return the mean at a place, if there is one."""
        found = np.flatnonzero(np.isclose(self.x, x))
        return float(self.mean[found[0]]) if len(found) else None


def last_arrival(run: Run) -> int:
    """Return the last percent of arrivals that a run reached; its curves are zero beyond, which says nothing."""
    alloc = np.asarray(run.curves.get("alloc", ()), dtype=np.float64)
    reached = np.flatnonzero(alloc)
    return int(reached[-1]) if len(reached) else 0


def arrival_lines(by_policy: Mapping[str, Sequence[Run]], curve: str, first: int = 0) -> list[ChartLine]:
    """Return a curve over the percent of requested gpus, by policy."""
    lines = []
    for policy, runs in by_policy.items():
        drawn = [run for run in runs if curve in run.curves and last_arrival(run)]
        if not drawn:
            continue
        width = max(last_arrival(run) for run in drawn) + 1
        table = np.full((len(drawn), width), np.nan)
        for row, run in enumerate(drawn):
            length = last_arrival(run) + 1
            table[row, :length] = run.curves[curve][:length]
        lines.append(_line(policy, np.arange(width, dtype=np.float64)[first:], table[:, first:]))
    return lines


def time_lines(by_policy: Mapping[str, Sequence[Run]], column: str, factor: float = 1.0) -> list[ChartLine]:
    """Return a measurement over time, by policy, at common times: a value holds until the next one is measured."""
    series = {
        policy: [run.outcome.series for run in runs if run.outcome is not None and run.outcome.series.at_s]
        for policy, runs in by_policy.items()
    }
    times = np.unique(np.concatenate([np.zeros(1), *(each.at_s for found in series.values() for each in found)]))
    if len(times) > MOST_POINTS:
        times = np.linspace(0.0, times[-1], MOST_POINTS)
    lines = []
    for policy, found in series.items():
        if found:
            table = np.array([_values_at(each, column, times) * factor for each in found], dtype=np.float64)
            reached = int(np.searchsorted(times, max(each.at_s[-1] for each in found), side="right"))
            lines.append(_line(policy, times[:reached], table[:, :reached]))
    return lines


def _values_at(series: Series, column: str, times: Floats) -> Floats:
    """Return the values at these times; none after the last measurement."""
    at = np.asarray(series.at_s, dtype=np.float64)
    values = np.asarray(getattr(series, column), dtype=np.float64)
    index = np.searchsorted(at, times, side="right") - 1
    held = np.where(index >= 0, values[np.maximum(index, 0)], np.nan)
    gap = at[1] - at[0] if len(at) > 1 else 0.0
    return np.where(times <= at[-1] + gap, held, np.nan)


def _line(policy: str, x: Floats, table: Floats) -> ChartLine:
    """Make a line of a table with a row per run; nan where a run has ended."""
    known = ~np.isnan(table)
    is_any = known.any(axis=0)
    x, table, known = x[is_any], table[:, is_any], known[:, is_any]
    mean = np.where(known, table, 0.0).sum(axis=0) / known.sum(axis=0)
    low = np.where(known, table, np.inf).min(axis=0, initial=np.inf)
    high = np.where(known, table, -np.inf).max(axis=0, initial=-np.inf)
    return ChartLine(policy, x, mean, low, high, len(table))
