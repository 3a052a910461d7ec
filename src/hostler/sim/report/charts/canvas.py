"""What all charts have: a frame with title and description, axes, a grid, colors by policy, and scales.

A scale has round ticks and the places of values, and says how numbers are written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hostler.sim.report.markup import Markup, join_markup, tag

__all__ = [
    "COLORS",
    "PlotBox",
    "PolicyColors",
    "Scale",
    "draw_svg",
    "figure_text",
    "linear_scale",
    "plain_number_text",
    "short_number_text",
    "shorten_middle",
    "text_width",
    "time_scale",
    "x_axis",
    "y_axis",
]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_HOUR, _DAY = 3600.0, 86_400.0
# Seconds between ticks that people find natural, up to a week; beyond, round numbers of days.
_TIMES = (1.0, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
_UNITS = ((_DAY, "days"), (_HOUR, "hours"), (60.0, "minutes"), (1.0, "seconds"))
COLORS = 8  # of the style sheet; a ninth policy gets the first one again, dashed
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_LETTER = 6.3  # mean width of a letter at the size of labels


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


class PlotBox(NamedTuple):
    """The place of the plot inside a drawing."""

    left: float
    top: float
    right: float
    bottom: float


class PolicyColors:
    """A color and a dash for each policy: the same ones in every chart of a report."""

    def __init__(self, policies: Sequence[str], first: int = 0) -> None:
        self._first = first  # the number of the first policy; numbers differ where colors come again
        self._numbers = {policy: at for at, policy in enumerate(policies)}

    def number(self, policy: str) -> int:
        """Return the number of a policy, by which the page can hide it."""
        return self._first + self._numbers[policy]

    def name(self, policy: str) -> str:
        """Return the class that colors what belongs to a policy."""
        return f"{self.color(policy)} s{self.number(policy)}"

    def color(self, policy: str) -> str:
        """Return the class of its color alone."""
        return f"c{self._numbers[policy] % COLORS}"

    def dash(self, policy: str) -> str | None:
        """Return how its line is dashed; None: it is not."""
        return _DASHES[self._numbers[policy] // COLORS % len(_DASHES)] or None


def draw_svg(width: float, height: float, title: str, description: str, *parts: str, **more: str) -> Markup:
    """Return an SVG with a title and a description for screen readers."""
    named = [tag("title", title), tag("desc", description)]
    return tag("svg", *named, *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=title, **more)


def x_axis(scale: Scale, box: PlotBox, title: str) -> Markup:
    """Draw the axis below, with its grid and title."""
    parts = []
    for tick, label in zip(scale.ticks, scale.labels, strict=True):
        x = scale.place(tick, box.left, box.right)
        parts.append(tag("line", x1=x, x2=x, y1=box.top, y2=box.bottom, class_="grid"))
        parts.append(tag("text", label, x=x, y=box.bottom + 16, class_="tick", text_anchor="middle"))
    parts.append(tag("line", x1=box.left, x2=box.right, y1=box.bottom, y2=box.bottom, class_="axis"))
    if title:
        middle = (box.left + box.right) / 2
        parts.append(tag("text", title, x=middle, y=box.bottom + 34, class_="name", text_anchor="middle"))
    return join_markup(parts)


def y_axis(scale: Scale, box: PlotBox) -> Markup:
    """Draw the axis on the left, with its grid; its title stands above the chart."""
    parts = []
    for tick, label in zip(scale.ticks, scale.labels, strict=True):
        y = scale.place(tick, box.bottom, box.top)
        parts.append(tag("line", x1=box.left, x2=box.right, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", label, x=box.left - 7, y=y + 4, class_="tick", text_anchor="end"))
    return join_markup(parts)


def shorten_middle(text: str, letters: int) -> str:
    """Shorten a text in the middle: names often differ at their ends."""
    if len(text) <= letters:
        return text
    kept = letters - 1
    return text[: kept - kept // 2] + "…" + text[-(kept // 2) :]


def text_width(text: str) -> float:
    """Estimate how wide a label is."""
    return _LETTER * len(text)
