"""Guesses which amount of memory or disk was meant, for hints: other programs write 4GB, or just 4."""

from __future__ import annotations

import re

from hostler.config.entries import Quantity
from hostler.model import CPU, MEMORY

__all__ = ["guess_unit"]

_BARE = re.compile(r"[1-9][0-9]{0,5}")  # more digits are bytes, and meant so
_FOREIGN = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<suffix> ?(?P<letter>[kmgtp])i?b?)", re.IGNORECASE)
_OWN = frozenset(("k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"))
_MANY_GIB = 128  # a bare number from here on is rather one of MiB


def guess_unit(resource: str, value: Quantity) -> str:
    """Return a question about a rejected amount; empty if there is no good guess."""
    text = str(value).strip()
    if resource == CPU:
        return ""
    if _BARE.fullmatch(text):
        unit = "Mi" if resource == MEMORY and int(text) >= _MANY_GIB else "Gi"
        return f"did you mean {text}{unit}? "
    found = _FOREIGN.fullmatch(text)
    if found is None or found["suffix"] in _OWN:
        return ""
    letter = found["letter"].upper()
    binary, decimal = f"{found['number']}{letter}i", f"{found['number']}{'k' if letter == 'K' else letter}"
    return f"did you mean {binary} or {decimal}? "
