"""Times: RFC 3339 in UTC outside, nanoseconds since 1970 inside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hostler.errors import InputError

__all__ = ["format_optional_time", "format_time", "parse_time"]

_NS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENGINE_END_NS = 2**62  # the engine's clock ends here
_LAST_NS = 253_402_300_799 * _NS  # the end of the year 9999


def format_time(time_ns: int) -> str:
    """Format a time."""
    seconds, rest = divmod(min(max(time_ns, 0), _LAST_NS), _NS)
    shown = _EPOCH + timedelta(seconds=seconds, microseconds=rest // 1000)
    return shown.isoformat(timespec="microseconds").replace("+00:00", "Z")


def format_optional_time(time_ns: int | None) -> str | None:
    """Format a time that may be unset; 0 means never."""
    return format_time(time_ns) if time_ns else None


def parse_time(place: str, text: str) -> int:
    """Parse a time; empty means 0. InputError."""
    if not text:
        return 0
    hint = "write it like 2030-01-31T12:00:00Z"
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{place}: {text[:40]!r} is not a time", hint=hint) from error
    if found.tzinfo is None:
        raise InputError(f"{place}: {text[:40]!r} does not say in which time zone", hint=hint)
    passed = found - _EPOCH
    if passed < timedelta(0):
        raise InputError(f"{place}: {text[:40]!r} is before 1970", hint=hint)
    time_ns = (passed.days * 86_400 + passed.seconds) * _NS + passed.microseconds * 1000
    if time_ns >= _ENGINE_END_NS:
        raise InputError(f"{place}: {text[:40]!r} is after February 2116", hint="leave it out: for good")
    return time_ns
