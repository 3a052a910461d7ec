"""Markup that cannot be forgotten to be escaped: a plain string is text, and only what is made here is markup.

Tables have text on the left and numbers on the right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["Markup", "coordinate_text", "details", "join_markup", "raw", "table", "tag", "with_spread_text"]

_EMPTY = frozenset({"meta"})  # elements of HTML that have no end; elements of SVG always get one
# Characters that no page may hold, or that would turn the text around them.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_NARROW = 4  # so few columns would stand too far apart on a whole page
_WIDE = 12  # so many are printed smaller, that they fit on paper

Column = tuple[str, str]  # the heading, and left or right


class Markup(str):
    """A string that is markup already."""

    __slots__ = ()


def raw(text: str) -> Markup:
    """Declare a string of our own to be markup."""
    return Markup(text)


def join_markup(parts: Iterable[str], between: str = "") -> Markup:
    """Put parts together; plain strings are escaped."""
    return Markup(_escaped(between).join(_escaped(part) for part in parts))


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element; ``class_`` and ``data_x`` become ``class`` and ``data-x``, and None leaves one out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join_markup(children)}</{name}>")


def coordinate_text(value: float) -> str:
    """Write a coordinate: a tenth of a unit is finer than a screen shows."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _value(value: str | float) -> str:
    return _escaped(value) if isinstance(value, str) else coordinate_text(value)


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else escape(_UNFIT.sub("\ufffd", text), quote=True)


def table(
    caption: str, columns: Sequence[Column], rows: Iterable[Sequence[str]], bold: Iterable[tuple[int, int]] = ()
) -> Markup:
    """Return a table; the first cell of a row names it, and cells in bold are given by row and column."""
    stressed = set(bold)
    head = tag("tr", *(tag("th", name, scope="col", class_=_side(side)) for name, side in columns))
    lines = []
    for at, row in enumerate(rows):
        cells = []
        for place, (cell, (_, side)) in enumerate(zip(row, columns, strict=True)):
            content = tag("strong", cell) if (at, place) in stressed else cell
            kind = {"scope": "row"} if place == 0 else {}
            cells.append(tag("th" if place == 0 else "td", content, class_=_side(side), **kind))
        lines.append(tag("tr", *cells))
    body = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *lines))
    width = " narrow" if len(columns) <= _NARROW else " wide" if len(columns) > _WIDE else ""
    return tag("div", body, class_=f"scroll{width}")


def details(summary: str, *content: str) -> Markup:
    """Return something that is shown on demand."""
    return tag("details", tag("summary", summary), join_markup(content))


def with_spread_text(value: str, spread: str) -> str:
    """Write a mean with its spread."""
    return f"{value} ± {spread}"


def _side(side: str) -> str | None:
    return "n" if side == "right" else None
