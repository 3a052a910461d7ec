"""Bar charts: lying bars in groups, a bar for each policy, with the value written at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hostler.sim.report.charts.canvas import (
    PlotBox,
    PolicyColors,
    draw_svg,
    linear_scale,
    short_number_text,
    shorten_middle,
    text_width,
    x_axis,
)
from hostler.sim.report.markup import Markup, join_markup, tag

__all__ = ["Bar", "bar_chart"]

WIDTH = 540.0
_THICK, _BETWEEN, _GROUPS = 13.0, 3.0, 14.0
_LETTERS = 16


class Bar(NamedTuple):
    """One bar: the mean of a policy's runs, and the least and the most of them."""

    policy: str
    mean: float
    low: float
    high: float


def bar_chart(
    groups: Sequence[tuple[str, Sequence[Bar]]],
    colors: PolicyColors,
    *,
    title: str,
    description: str,
    x_title: str,
    digits: int = 2,
) -> Markup:
    """Draw groups of bars; a thin line shows from the least to the most of several runs."""
    names = [shorten_middle(name, _LETTERS) for name, _ in groups]
    values = [short_number_text(bar.mean, digits) for _, bars in groups for bar in bars]
    left = 12 + max(text_width(name) for name in names)
    right = WIDTH - 10 - max(text_width(value) for value in values)
    scale = linear_scale(0.0, max(bar.high for _, bars in groups for bar in bars))
    box = PlotBox(left, 6, right, 6)
    parts: list[Markup] = []
    y = box.top + _GROUPS / 2
    for name, (_, bars) in zip(names, groups, strict=True):
        height = len(bars) * (_THICK + _BETWEEN) - _BETWEEN
        parts.append(tag("text", name, x=left - 8, y=y + height / 2 + 4, class_="label", text_anchor="end"))
        for bar in bars:
            end = scale.place(bar.mean, box.left, box.right)
            high = scale.place(bar.high, box.left, box.right)
            number = colors.number(bar.policy)
            shapes = [
                tag("title", f"{bar.policy}, {name}: {short_number_text(bar.mean, digits)}"),
                tag("rect", x=left, y=y, width=end - left, height=_THICK, class_=_look(bar.policy, colors)),
            ]
            if bar.high > bar.low:
                low = scale.place(bar.low, box.left, box.right)
                middle = y + _THICK / 2
                shapes.append(tag("line", x1=low, x2=high, y1=middle, y2=middle, class_="whisker"))
            place = max(end, high) + 5
            shapes.append(tag("text", short_number_text(bar.mean, digits), x=place, y=y + _THICK - 2.5, class_="value"))
            parts.append(tag("g", *shapes, class_=f"s{number}"))
            y += _THICK + _BETWEEN
        y += _GROUPS - _BETWEEN
    box = box._replace(bottom=y - _GROUPS / 2)
    axis = x_axis(scale, box, x_title)
    base = tag("line", x1=left, x2=left, y1=box.top, y2=box.bottom, class_="axis")
    return draw_svg(WIDTH, box.bottom + 46, title, description, axis, join_markup(parts), base, class_="chart")


def _look(policy: str, colors: PolicyColors) -> str:
    """Return the classes of a bar: where colors come again, it is pale and has an edge."""
    again = " again" if colors.dash(policy) else ""
    return f"bar {colors.name(policy)}{again}"
