"""Durations as people write them ("1s", "500ms", "1m30s") to nanoseconds, and back.

Policies and settings use them.
"""

from __future__ import annotations

import re

from hostler.config.wording import quote
from hostler.errors import QuantityError
from hostler.model import MAX_AMOUNT

__all__ = ["format_duration", "parse_duration"]

_UNITS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_PART = re.compile(r"(?P<whole>[0-9]{1,20})(?:\.(?P<part>[0-9]{1,9}))?(?P<unit>h|ms|us|ns|m|s)")
_WHOLE = re.compile(r"(?:[0-9]{1,20}(?:\.[0-9]{1,9})?(?:h|ms|us|ns|m|s)){1,6}")


def parse_duration(text: str) -> int:
    """Return a duration such as ``1m30s`` or ``0.5s`` in nanoseconds."""
    if text == "0":
        return 0
    if text.startswith("-") and _WHOLE.fullmatch(text[1:]):
        raise QuantityError(f"duration {quote(text)} is negative", hint="leave out the minus")
    if not _WHOLE.fullmatch(text):
        raise QuantityError(f"{quote(text)} is not a duration", hint='write it as "500ms", "1s" or "1h30m"')
    total = 0
    for match in _PART.finditer(text):
        unit, part = _UNITS[match["unit"]], match["part"] or ""
        amount, rest = divmod(int(match["whole"] + part) * unit, 10 ** len(part))
        if rest:
            raise QuantityError(f"duration {quote(text)} is finer than a nanosecond", hint="round it")
        total += amount
    if total >= MAX_AMOUNT:  # where the engine's clock ends
        raise QuantityError(f"duration {quote(text)} is longer than 146 years", hint="check the unit")
    return total


def format_duration(nanoseconds: int) -> str:
    """Write nanoseconds in the largest unit that divides them."""
    for unit, size in _UNITS.items():
        if nanoseconds and nanoseconds % size == 0:
            return f"{nanoseconds // size}{unit}"
    return "0s"
