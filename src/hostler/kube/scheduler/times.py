"""Timestamps in Kubernetes formats. Used by ``election``, ``statuses`` and ``reports``."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["micro_time", "second_time"]

_SECOND = 1_000_000_000


def second_time(at: int) -> str:
    """Format nanoseconds since 1970 as a Time, in whole seconds."""
    return datetime.fromtimestamp(at // _SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(at: int) -> str:
    """Format nanoseconds since 1970 as a MicroTime."""
    return datetime.fromtimestamp(at // _SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % _SECOND // 1000:06d}Z"
