"""Durations and points in time as people write them, to nanoseconds and back.

A duration reads ``1s``, ``500ms`` or ``1m30s``; a point in time is RFC 3339 or a duration since 1970. Used by policies,
settings and fleet files.
"""

from __future__ import annotations

import datetime
import re

from hostler.config.key_paths import quote
from hostler.errors import QuantityError
from hostler.model import MAX_AMOUNT

__all__ = ["format_duration", "format_time", "parse_duration", "parse_time"]

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


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND_NS = 10**9
_FORMAT = re.compile(
    r"(?P<seconds>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.(?P<part>[0-9]{1,9}))?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})"
)
_DATED_FROM_NS = 365 * 86_400 * _SECOND_NS  # smaller times come from a clock that began at 0, not from a calendar


def parse_time(text: str) -> int:
    """Return a time such as ``2026-01-31T12:00:00Z``, or a duration such as ``90s``, in nanoseconds."""
    found = _FORMAT.fullmatch(text)
    if found is None:
        try:
            return parse_duration(text)
        except QuantityError as error:
            hint = "write it as 2026-01-31T12:00:00Z, with a time zone"
            raise QuantityError(f"{quote(text)} is not a time", hint=hint) from error
    try:
        moment = datetime.datetime.fromisoformat(found["seconds"] + found["zone"])
        whole = (moment - _EPOCH) // datetime.timedelta(seconds=1)
    except (ValueError, OverflowError) as error:
        raise QuantityError(f"{quote(text)} is not a time: {error}", hint="check day and hour") from error
    time_ns = whole * _SECOND_NS + int((found["part"] or "").ljust(9, "0"))
    if not 0 <= time_ns <= MAX_AMOUNT:
        raise QuantityError(f"{quote(text)} is not between 1970 and 2116", hint="check the year")
    return time_ns


def format_time(time_ns: int) -> str:
    """Write a time so that reading it gives the same one."""
    if time_ns < _DATED_FROM_NS:
        return format_duration(time_ns)
    seconds, part = divmod(time_ns, _SECOND_NS)
    text = (_EPOCH + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{part:09d}".rstrip("0") if part else ""
    return f"{text}{fraction}Z"
