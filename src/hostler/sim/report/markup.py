"""Markup that cannot be forgotten to be escaped: a plain string is text, and only what is made here is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

__all__ = ["Markup", "coordinate_text", "join_markup", "raw", "tag"]

_EMPTY = frozenset({"meta"})  # elements of HTML that have no end; elements of SVG always get one
# Characters that no page may hold, or that would turn the text around them.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


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
