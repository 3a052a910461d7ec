"""Texts for errors about input: paths to keys, quoted and shortened values, nearest names.

All modules of this package use it, and commands may.
"""

from __future__ import annotations

import re

from hostler.model.nearest_names import did_you_mean, quote

__all__ = ["Path", "describe_path", "did_you_mean", "quote"]

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def describe_path(path: Path) -> str:
    """Return a path as text: ``hosts[0].labels['example.com/zone']``."""
    words: list[str] = []
    for step in path:
        if isinstance(step, int):
            words.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step):
            words.append(f".{step}" if words else step)
        else:
            words.append(f"[{quote(step)}]")
    return "".join(words) or "the document"
