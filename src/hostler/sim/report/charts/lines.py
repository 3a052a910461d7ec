"""Line charts: one line and band per policy, labelled where it ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hostler.sim.report.charts.averages import ChartLine
from hostler.sim.report.charts.canvas import (
    PlotBox,
    PolicyColors,
    Scale,
    draw_svg,
    linear_scale,
    shorten_middle,
    text_width,
    x_axis,
    y_axis,
)
from hostler.sim.report.markup import Markup, coordinate_text, join_markup, tag

__all__ = ["line_chart", "value_scale"]

Floats = NDArray[np.float64]
WIDTH, HEIGHT = 540.0, 300.0
_TOP, _BOTTOM = 12.0, 46.0
_LABEL_GAP = 14.0  # between the baselines of two labels
_MOST_LABELS = 14  # more find no room beside a chart; the legend has them all
_LETTERS = 18


def value_scale(lines: Sequence[ChartLine], *, is_fitted: bool = False, most: float | None = None) -> Scale:
    """Return a scale for the values: from zero, or fitted to where they are."""
    high = max((float(line.high.max()) for line in lines if len(line.high)), default=1.0)
    low = min((float(line.low.min()) for line in lines if len(line.low)), default=0.0) if is_fitted else 0.0
    if most is not None and high <= most:
        high = most if not is_fitted else min(most, high)
    return linear_scale(min(low, 0.0) if not is_fitted else low, high)


def line_chart(
    lines: Sequence[ChartLine],
    colors: PolicyColors,
    *,
    title: str,
    description: str,
    x: Scale,
    y: Scale,
    x_title: str,
    digits: int = 2,
    is_stepped: bool = False,
) -> Markup:
    """Draw lines with their bands."""
    names = [shorten_middle(line.policy, _LETTERS) for line in lines] if len(lines) <= _MOST_LABELS else []
    room = max((text_width(name) for name in names), default=0.0) + (24 if names else 12)
    left = 14 + max(text_width(label) for label in y.labels)
    box = PlotBox(left, _TOP, WIDTH - room, HEIGHT - _BOTTOM)
    drawn = [_drawn(line, colors, box, x, y, digits, is_stepped=is_stepped) for line in lines]
    parts = [y_axis(y, box), x_axis(x, box, x_title), *(band for band, _ in drawn), *(each for _, each in drawn)]
    if names:
        parts.append(_labels(lines, names, colors, box, x, y))
    hover = tag("line", class_="guide", y1=box.top, y2=box.bottom, x1=0.0, x2=0.0, visibility="hidden")
    return draw_svg(
        WIDTH,
        HEIGHT,
        title,
        description,
        *parts,
        hover,
        class_="chart lines",
        data_box=" ".join(coordinate_text(value) for value in box),
        data_x=f"{x.low:g} {x.high:g} {_unit_size(x):g}",
        data_unit=x.unit or "%",
    )


def _unit_size(x: Scale) -> float:
    return {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0}.get(x.unit, 1.0)


def _drawn(
    line: ChartLine, colors: PolicyColors, box: PlotBox, x: Scale, y: Scale, digits: int, *, is_stepped: bool
) -> tuple[Markup, Markup]:
    """Return the band, if there are several runs, and the line."""
    places = [x.place(value, box.left, box.right) for value in line.x.tolist()]
    name = colors.name(line.policy)
    band = Markup("")
    if line.runs > 1:
        there = _points(places, line.high, box, y, is_stepped=is_stepped)
        back = reversed(_points(places, line.low, box, y, is_stepped=is_stepped))
        band = tag("polygon", points=" ".join([*there, *back]), class_=f"band {name}")
    path = tag(
        "polyline",
        points=" ".join(_points(places, line.mean, box, y, is_stepped=is_stepped)),
        class_=f"line {name} fine" if is_stepped else f"line {name}",
        stroke_dasharray=colors.dash(line.policy),
        data_name=line.policy,
        data_at=" ".join(f"{value:.6g}" for value in line.x.tolist()),
        data_y=" ".join(f"{value:.{digits}f}" for value in line.mean.tolist()),
    )
    return band, path


def _points(places: Sequence[float], values: Floats, box: PlotBox, y: Scale, *, is_stepped: bool) -> list[str]:
    points: list[str] = []
    before = ""
    for place, value in zip(places, values.tolist(), strict=True):
        height = coordinate_text(y.place(value, box.bottom, box.top))
        if is_stepped and before and before != height:
            points.append(f"{coordinate_text(place)},{before}")
        points.append(f"{coordinate_text(place)},{height}")
        before = height
    return points


def _labels(
    lines: Sequence[ChartLine], names: Sequence[str], colors: PolicyColors, box: PlotBox, x: Scale, y: Scale
) -> Markup:
    """Write the names of lines beside their ends, pushed apart where they would overlap."""
    ends = [y.place(float(line.mean[-1]), box.bottom, box.top) for line in lines]
    order = sorted(range(len(lines)), key=lambda at: (ends[at], at))
    heights = spread_labels([ends[at] for at in order], _LABEL_GAP, box.top + 2, box.bottom - 2)
    parts = []
    for at, height in zip(order, heights, strict=True):
        line = lines[at]
        end = x.place(float(line.x[-1]), box.left, box.right)
        corners = ((end, ends[at]), (box.right + 14, height))
        points = " ".join(f"{coordinate_text(x)},{coordinate_text(y)}" for x, y in corners)
        parts.append(
            tag(
                "g",
                tag("polyline", points=points, class_=f"leader {colors.name(line.policy)}"),
                tag("text", names[at], x=box.right + 18, y=height + 4, class_="label"),
                class_=f"s{colors.number(line.policy)}",
            )
        )
    return join_markup(parts)


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move sorted places as little as needed, so that they keep a distance and stay between two ends."""
    groups: list[list[float]] = []  # each: where its middle wants to be, summed, and how many there are
    for place in wanted:
        groups.append([place, 1.0])
        while len(groups) > 1 and _top(groups[-1], gap, low, high) < _end(groups[-2], gap, low, high) + gap:
            total, count = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    return [_top(group, gap, low, high) + at * gap for group in groups for at in range(int(group[1]))]


def _top(group: Sequence[float], gap: float, low: float, high: float) -> float:
    total, count = group
    first = total / count - gap * (count - 1) / 2
    return max(low, min(first, high - gap * (count - 1)))


def _end(group: Sequence[float], gap: float, low: float, high: float) -> float:
    return _top(group, gap, low, high) + gap * (group[1] - 1)
