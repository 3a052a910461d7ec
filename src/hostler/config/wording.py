"""How errors about input are worded: quoted and shortened text, paths, nearest names.

All of this package uses it, and the commands may.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = ["Path", "describe", "did_you_mean", "quote"]

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MAX_SHOWN = 60  # characters of a stranger's text in one message
_MAX_COMPARED = 2_000  # names; difflib costs about 10 µs for each


def quote(text: str, *, marks: str = "'") -> str:
    """Show text from a file in quotes, shortened, on one line and without control characters."""
    shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return f"{marks}{shown}{marks}"


def describe(path: Path) -> str:
    """Write a path as a person would: ``hosts[0].labels['example.com/zone']``."""
    words: list[str] = []
    for step in path:
        if isinstance(step, int):
            words.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step):
            words.append(f".{step}" if words else step)
        else:
            words.append(f"[{quote(step)}]")
    return "".join(words) or "the document"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known name, or lists some when none is near."""
    names = sorted(set(known))
    if not names:
        return ""
    shortlist = names if len(names) <= _MAX_COMPARED else _alike(name, names)
    near = difflib.get_close_matches(name[:253], shortlist, n=1, cutoff=0.6)
    if near:
        return f"did you mean {quote(near[0])}?"
    shown = ", ".join(quote(n, marks="") for n in names[:12])
    return f"known: {shown}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _alike(name: str, names: list[str]) -> list[str]:
    """Pick from many names those that begin or end like ``name``, up to what difflib compares quickly."""
    picked = [n for n in names if n[:4] == name[:4] or n[-4:] == name[-4:]]
    return picked[:_MAX_COMPARED]
