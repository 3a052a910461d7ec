"""Tables of the page: text on the left, numbers on the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostler.sim.report.markup import Markup, join_markup, tag

__all__ = ["details", "table", "with_spread_text"]

_NARROW = 4  # so few columns would stand too far apart on a whole page
_WIDE = 12  # so many are printed smaller, that they fit on paper

Column = tuple[str, str]  # the heading, and left or right


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
