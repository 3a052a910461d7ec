"""Kubernetes' times to nanoseconds since 1970 and back, in whole microseconds (Kubernetes writes seconds)."""

from __future__ import annotations

import datetime

from hostler.errors import InputError

__all__ = ["format_time", "nanoseconds"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_LIMIT_NS = 2**62  # the engine's clock ends there, in 2116


def nanoseconds(time: datetime.datetime | None, path: str) -> int:
    """Convert a time to nanoseconds; 0 if there is none. A time without a zone is in UTC."""
    if time is None:
        return 0
    aware = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
    found = (aware - _EPOCH) // _MICROSECOND * 1000
    if not 0 <= found < _LIMIT_NS:
        raise InputError(f"{path}: {time.isoformat()} is not between 1970 and 2116")
    return found


def format_time(time_ns: int) -> str:
    """Write nanoseconds as a time in UTC."""
    time = _EPOCH + datetime.timedelta(microseconds=time_ns // 1000)
    return time.isoformat().replace("+00:00", "Z")
