"""Arrival times and durations by rules, from counted draws: the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostler.config import parse_duration
from hostler.errors import InputError
from hostler.sim.scenarios.file import DurationEntry, PatternEntry
from hostler.sim.shuffles import uniforms
from hostler.sim.workload import FOREVER, Ints

__all__ = ["arrival_times", "durations"]

HOUR = 3600 * 10**9
DAY = 24 * HOUR
_MOST_NS = 2**61
_GAPS, _SHAPE, _DURATIONS = 11, 12, 13

Floats = NDArray[np.float64]


def arrival_times(pattern: PatternEntry, count: int, start_ns: int, seed: int, stream: int) -> Ints:
    """Return the times of so many arrivals, in order."""
    gap = HOUR / pattern.per_hour
    times: Floats
    if pattern.kind == "at_once":
        times = np.zeros(count)
    elif pattern.kind == "even":
        times = np.arange(count, dtype=np.float64) * gap
    elif pattern.kind == "bursts":
        bursts = -(-count // pattern.burst)
        times = np.repeat(np.cumsum(_exponential(seed, _GAPS + 100 * stream, bursts) * gap), pattern.burst)[:count]
    else:
        times = np.cumsum(_exponential(seed, _GAPS + 100 * stream, count) * gap)
        if pattern.kind == "daily":
            times = _bent(times, pattern)
    return _whole(times + start_ns, "arrives")


def durations(rule: DurationEntry, count: int, seed: int, stream: int) -> Ints:
    """Return how long so many guests run."""
    if rule.kind == "forever":
        return np.full(count, FOREVER, dtype=np.int64)
    if rule.kind == "lognormal":
        first = uniforms(seed, _DURATIONS + 100 * stream, count)
        second = uniforms(seed, _SHAPE + 100 * stream, count)
        normal = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
        times = parse_duration(rule.median) * np.exp(rule.sigma * normal)
    elif rule.kind == "exponential":
        times = _exponential(seed, _DURATIONS + 100 * stream, count) * parse_duration(rule.mean)
    else:
        times = np.full(count, float(parse_duration(rule.mean)))
    return np.maximum(_whole(np.minimum(times, _MOST_NS / 2), "runs"), 1)


def _exponential(seed: int, stream: int, count: int) -> Floats:
    return -np.log1p(-uniforms(seed, stream, count))


def _bent(times: Floats, pattern: PatternEntry) -> Floats:
    """Bend even time to a daily rhythm: where t is the time by the mean rate, find when the rhythm has given as many.

    The rate is 1 + swing * cos(2 pi (t - peak) / day); its integral grows, so it is turned around on a grid.
    """
    peak = parse_duration(pattern.peak)
    days = int(times[-1] // DAY) + 2 if len(times) else 1
    grid = np.linspace(0.0, days * DAY, 288 * days + 1)
    turn = 2.0 * np.pi / DAY
    given = grid + pattern.swing * (np.sin(turn * (grid - peak)) - np.sin(-turn * peak)) / turn
    return np.interp(times, given, grid)


def _whole(times: Floats, what: str) -> Ints:
    if len(times) and float(times.max()) > _MOST_NS:
        raise InputError(f"a guest {what} after more than 73 years", hint="raise the rate, or lower the count")
    return np.rint(times).astype(np.int64)
