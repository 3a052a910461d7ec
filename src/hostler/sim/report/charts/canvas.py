"""What all charts have: a frame with title and description, axes, a grid, and colors by policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hostler.sim.report.charts.scales import Scale
from hostler.sim.report.markup import Markup, join_markup, tag

__all__ = ["COLORS", "PlotBox", "PolicyColors", "draw_svg", "shorten_middle", "text_width", "x_axis", "y_axis"]

COLORS = 8  # of the style sheet; a ninth policy gets the first one again, dashed
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_LETTER = 6.3  # mean width of a letter at the size of labels


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
