"""Heat maps: how much of each host is in use, over time.

The map is a small picture (PNG) inside the page: shapes would take a hundred times as much.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from hostler.sim.report.charts.canvas import PlotBox, Scale, draw_svg, linear_scale, text_width, x_axis
from hostler.sim.report.markup import Markup, tag
from hostler.sim.scenarios.outcome import ScenarioOutcome

__all__ = ["LEVELS", "RAMP", "heat_key", "heat_map", "picture_url", "share_color"]

LEVELS = 100  # one color for each percent, and one for what is beyond
# From nothing to full: lightness falls evenly, so that the map can be read without colors, too.
RAMP = ((247, 244, 228), (176, 216, 190), (82, 166, 178), (38, 104, 152), (22, 38, 84))
_BEYOND = (213, 94, 0)


def share_color(share: float) -> tuple[int, int, int]:
    """Return the color of a share; above 1 it is a warning."""
    if share > 1.0:
        return _BEYOND
    place = min(max(share, 0.0), 1.0) * (len(RAMP) - 1)
    at = min(int(place), len(RAMP) - 2)
    part = place - at
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(RAMP[at], RAMP[at + 1], strict=True))
    return red, green, blue


def picture_url(shares: NDArray[np.float64]) -> str:
    """Return rows of shares as the address of a picture, a dot each."""
    palette = [share_color(level / LEVELS) for level in range(LEVELS + 1)] + [_BEYOND]
    is_beyond = shares > 1.0 + 1e-9
    dots = np.where(is_beyond, LEVELS + 1, np.rint(np.clip(shares, 0.0, 1.0) * LEVELS)).astype(np.uint8)
    height, width = dots.shape
    lines = b"".join(b"\0" + row.tobytes() for row in dots)  # 0: no filter
    content = b"\x89PNG\r\n\x1a\n"
    content += _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))  # 8 bits, with a palette
    content += _chunk(b"PLTE", b"".join(bytes(each) for each in palette))
    content += _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


WIDTH = 540.0
_MOST_COLUMNS = 240
_ROW = (1.0, 12.0)  # the least and the most height of a host


def heat_map(outcome: ScenarioOutcome, x: Scale, *, title: str, description: str) -> Markup:
    """Draw the hosts of one run: a line of dots for each, from its first measurement to its last."""
    table = np.asarray(outcome.series.by_host, dtype=np.float64)
    count, shown = table.shape
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_COLUMNS)).astype(np.int64))
    hosts = linear_scale(0.0, float(outcome.hosts), 4, is_tight=True)
    left = 14 + max(text_width(label) for label in hosts.labels)
    height = min(max(220.0 / shown, _ROW[0]), _ROW[1]) * shown
    box = PlotBox(left, 6.0, WIDTH - 14, 6.0 + height)
    end = x.place(outcome.series.at_s[-1], box.left, box.right)
    image = tag(
        "image",
        href=picture_url(table[chosen].T),
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
    return draw_svg(WIDTH, box.bottom + 44, title, description, axis, image, *labels, class_="chart")


def heat_key() -> Markup:
    """Return the legend of the colors."""
    colors = ", ".join(f"rgb({red} {green} {blue})" for red, green, blue in RAMP)
    strip = tag("span", class_="ramp", style=f"background: linear-gradient(to right, {colors})")
    return tag("p", "empty ", strip, " full; ", tag("span", class_="beyond"), " beyond its capacity", class_="key")
