"""What time it is for the engine, by a clock that people and other machines may set.

The engine's time never goes back, and the log tells it to every replica. A clock does go back: it was wrong and is set
right, or the leader before had one that is ahead of ours. Then the engine's time goes on from where it is, half as
fast, until the clock has caught up with it. Nobody waits for that, and what takes its time takes twice that at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["EngineTime"]

_SLOWER = 2


class EngineTime:
    """The time for the next step, in nanoseconds since 1970."""

    def __init__(self, clock: Callable[[], int], steady: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._steady = steady
        self._from = 0  # where it began to go slower, by the engine's time
        self._since = 0  # and by the clock that nobody sets

    def now(self, reached: int) -> int:
        """Return the time for an engine that has reached some time already."""
        now, steady_ns = self._clock(), self._steady()
        slowed = self._from + (steady_ns - self._since) // _SLOWER if self._from else 0
        if now >= max(reached, slowed):
            self._from = 0
            return now
        if slowed < reached:
            self._from, self._since, slowed = reached, steady_ns, reached
        return slowed
