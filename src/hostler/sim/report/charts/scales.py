"""Scales of charts: round ticks, places of values, and how numbers are written."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Scale", "figure_text", "linear_scale", "plain_number_text", "short_number_text", "time_scale"]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_HOUR, _DAY = 3600.0, 86_400.0
# Seconds between ticks that people find natural, up to a week; beyond, round numbers of days.
_TIMES = (1.0, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
_UNITS = ((_DAY, "days"), (_HOUR, "hours"), (60.0, "minutes"), (1.0, "seconds"))


class Scale(NamedTuple):
    """An axis: its ends, its ticks, and what is written at them."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    unit: str = ""

    def place(self, value: float, first: float, last: float) -> float:
        """Return where a value lies between two coordinates; what is beyond the ends stays at them."""
        share = (value - self.low) / (self.high - self.low)
        return first + min(max(share, 0.0), 1.0) * (last - first)


def linear_scale(low: float, high: float, wanted: int = 5, *, is_tight: bool = False) -> Scale:
    """Return a scale with about so many round ticks; a tight one ends where the values do."""
    if not high > low:
        high = low + 1.0
    step = _round_step((high - low) / wanted)
    first = math.ceil(low / step - 1e-9) if is_tight else math.floor(low / step + 1e-9)
    last = math.floor(high / step + 1e-9) if is_tight else math.ceil(high / step - 1e-9)
    ticks = tuple(at * step for at in range(first, last + 1))
    ends = (low, high) if is_tight else (ticks[0], ticks[-1])
    digits = max(0, int(_is_quarter(step)) - math.floor(math.log10(step) + 1e-9))
    return Scale(*ends, ticks, tuple(f"{tick + 0.0:,.{digits}f}" for tick in ticks))


def time_scale(last_s: float, wanted: int = 8) -> Scale:
    """Return a scale from 0 to a time in seconds, with ticks at natural times."""
    last_s = max(last_s, 1.0)
    step = next((time for time in _TIMES if last_s / time <= wanted), 0.0)
    step = step or _DAY * _round_step(last_s / _DAY / wanted)
    size, unit = next((size, unit) for size, unit in _UNITS if last_s >= 3 * size or size == 1.0)
    ticks = tuple(at * step for at in range(math.floor(last_s / step + 1e-9) + 1))
    return Scale(0.0, last_s, ticks, tuple(f"{tick / size:,.4g}" for tick in ticks), unit)


def figure_text(value: float, digits: int = 2) -> str:
    """Write a number with separators of thousands and so many digits."""
    return f"{value + 0.0:,.{digits}f}"


def plain_number_text(value: float) -> str:
    """Write a number with digits where it has any."""
    return figure_text(value, 0 if value == round(value) else 2)


def short_number_text(value: float, digits: int = 2) -> str:
    """Write a number shortly: the larger it is, the fewer digits are needed."""
    return figure_text(value, 0 if abs(value) >= 1000 or not value else min(digits, 1) if abs(value) >= 100 else digits)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def _is_quarter(step: float) -> bool:
    return math.isclose(step / 10.0 ** math.floor(math.log10(step) + 1e-9), 2.5)
