"""What all charts have: a frame with title and description, axes, a grid, and colours by policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hostler.sim.report.markup import Markup, joined, tag
from hostler.sim.report.scales import Scale

__all__ = ["COLOURS", "Box", "Colours", "drawing", "shortened", "text_width", "x_axis", "y_axis"]

COLOURS = 8  # of the style sheet; a ninth policy gets the first one again, dashed
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_LETTER = 6.3  # mean width of a letter at the size of labels


class Box(NamedTuple):
    """The place of the plot inside a drawing."""

    left: float
    top: float
    right: float
    bottom: float


class Colours:
    """A colour and a dash for each policy: the same ones in every chart of a report."""

    def __init__(self, policies: Sequence[str], first: int = 0) -> None:
        self._first = first  # the number of the first policy; numbers differ where colours come again
        self._numbers = {policy: at for at, policy in enumerate(policies)}

    def number(self, policy: str) -> int:
        """Return the number of a policy, by which the page can hide it."""
        return self._first + self._numbers[policy]

    def name(self, policy: str) -> str:
        """Return the class that colours what belongs to a policy."""
        return f"{self.colour(policy)} s{self.number(policy)}"

    def colour(self, policy: str) -> str:
        """Return the class of its colour alone."""
        return f"c{self._numbers[policy] % COLOURS}"

    def dash(self, policy: str) -> str | None:
        """Return how its line is dashed; None: it is not."""
        return _DASHES[self._numbers[policy] // COLOURS % len(_DASHES)] or None


def drawing(width: float, height: float, title: str, description: str, *parts: str, **more: str) -> Markup:
    """Return a drawing that a screen reader can tell of."""
    named = [tag("title", title), tag("desc", description)]
    return tag("svg", *named, *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=title, **more)


def x_axis(scale: Scale, box: Box, title: str) -> Markup:
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
    return joined(parts)


def y_axis(scale: Scale, box: Box) -> Markup:
    """Draw the axis on the left, with its grid; its title stands above the chart."""
    parts = []
    for tick, label in zip(scale.ticks, scale.labels, strict=True):
        y = scale.place(tick, box.bottom, box.top)
        parts.append(tag("line", x1=box.left, x2=box.right, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", label, x=box.left - 7, y=y + 4, class_="tick", text_anchor="end"))
    return joined(parts)


def shortened(text: str, letters: int) -> str:
    """Cut the middle out of a text that has no room: names often differ at their ends."""
    if len(text) <= letters:
        return text
    kept = letters - 1
    return text[: kept - kept // 2] + "…" + text[-(kept // 2) :]


def text_width(text: str) -> float:
    """Estimate how wide a label is."""
    return _LETTER * len(text)
