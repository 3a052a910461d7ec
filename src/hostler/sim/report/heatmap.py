"""Heat maps: how much of each host is in use, over time."""

from __future__ import annotations

import numpy as np

from hostler.sim.report.drawing import Box, drawing, text_width, x_axis
from hostler.sim.report.markup import Markup, tag
from hostler.sim.report.pictures import RAMP, picture
from hostler.sim.report.scales import Scale, linear
from hostler.sim.scenarios.outcome import Outcome

__all__ = ["heat_key", "heat_map"]

WIDTH = 540.0
_MOST_COLUMNS = 240
_ROW = (1.0, 12.0)  # the least and the most height of a host


def heat_map(outcome: Outcome, x: Scale, *, title: str, description: str) -> Markup:
    """Draw the hosts of one run: a line of dots for each, from its first measurement to its last."""
    table = np.asarray(outcome.series.by_host, dtype=np.float64)
    count, shown = table.shape
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_COLUMNS)).astype(np.int64))
    hosts = linear(0.0, float(outcome.hosts), 4, is_tight=True)
    left = 14 + max(text_width(label) for label in hosts.labels)
    height = min(max(220.0 / shown, _ROW[0]), _ROW[1]) * shown
    box = Box(left, 6.0, WIDTH - 14, 6.0 + height)
    end = x.place(outcome.series.at_s[-1], box.left, box.right)
    image = tag(
        "image",
        href=picture(table[chosen].T),
        x=box.left,
        y=box.top,
        width=max(end - box.left, 1.0),
        height=height,
        preserveAspectRatio="none",
        class_="dots",
    )
    labels = [
        tag(
            "text",
            label,
            x=box.left - 7,
            y=hosts.place(tick, box.top, box.bottom) + 4,
            class_="tick",
            text_anchor="end",
        )
        for tick, label in zip(hosts.ticks, hosts.labels, strict=True)
    ]
    axis = x_axis(x, box, f"time ({x.unit})")
    return drawing(WIDTH, box.bottom + 44, title, description, axis, image, *labels, class_="chart")


def heat_key() -> Markup:
    """Return the legend of the colours."""
    colours = ", ".join(f"rgb({red} {green} {blue})" for red, green, blue in RAMP)
    strip = tag("span", class_="ramp", style=f"background: linear-gradient(to right, {colours})")
    return tag("p", "empty ", strip, " full; ", tag("span", class_="beyond"), " beyond its capacity", class_="key")
