"""Suggestions for unknown names: the nearest known name, and the hint that shows it. Pure; used by all lookups."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest_name", "quote"]

_MAX_COMPARED = 2_000  # names; difflib costs about 10 µs for each
_LONGEST = 253  # characters of the wanted name; difflib's time grows with its square
_MAX_SHOWN = 60  # characters of a stranger's text in one message
_LIKENESS = 0.6  # from 0 to 1: of two names that share that part of their letters one may be a slip for the other


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like ``name``, ignoring case; empty if none is near."""
    names = sorted(set(known))
    same = name[:_LONGEST].casefold()
    for one in names:
        if one.casefold() == same:
            return one
    shortlist = names if len(names) <= _MAX_COMPARED else _similar_ends(name, names)
    near = difflib.get_close_matches(name[:_LONGEST], shortlist, n=1, cutoff=_LIKENESS)
    return near[0] if near else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known name, or lists some when none is near."""
    names = sorted(set(known))
    if not names:
        return ""
    if near := nearest_name(name, names):
        return f"did you mean {quote(near)}?"
    shown = ", ".join(quote(n, marks="") for n in names[:12])
    return f"known: {shown}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def quote(text: str, *, marks: str = "'") -> str:
    """Show text from a file in quotes, shortened, on one line and without control characters."""
    shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return f"{marks}{shown}{marks}"


def _similar_ends(name: str, names: list[str]) -> list[str]:
    """Pick from many names those that begin or end like ``name``, up to what difflib compares quickly."""
    picked = [n for n in names if n[:4] == name[:4] or n[-4:] == name[-4:]]
    return picked[:_MAX_COMPARED]
