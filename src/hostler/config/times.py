"""Points in time as a fleet file writes them (RFC 3339, or a duration since 1970), to nanoseconds and back."""

from __future__ import annotations

import datetime
import re

from hostler.config.durations import format_duration, parse_duration
from hostler.config.wording import quote
from hostler.errors import QuantityError
from hostler.model import MAX_AMOUNT

__all__ = ["format_time", "parse_time"]

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
