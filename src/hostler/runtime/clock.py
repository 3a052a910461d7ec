"""The time that a live front passes to the engine and writes into time stamps and deadlines.

Two implementations: ``SteadyClock`` here, and the virtual one beside the API server in memory. Waiting is asyncio's: an
event loop in virtual time makes sleeps and time-outs virtual too. Invariant: a clock never runs backwards or jumps.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

__all__ = ["NANOSECONDS", "Clock", "SteadyClock"]

NANOSECONDS = 1_000_000_000


class Clock(Protocol):
    """Returns the current time."""

    def now(self) -> int:
        """Return nanoseconds since 1970; never runs backwards and never jumps."""
        ...


class SteadyClock:
    """The wall clock at the start, plus what the event loop counted since: setting the clock changes nothing."""

    def __init__(self) -> None:
        self._start = time.time_ns()  # noqa: TID251 - the one place where wall time enters
        self._loop_start = asyncio.get_running_loop().time()

    def now(self) -> int:
        """Return nanoseconds since 1970."""
        return self._start + int((asyncio.get_running_loop().time() - self._loop_start) * NANOSECONDS)
