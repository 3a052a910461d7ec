"""A steady rate: the n-th thing is due n intervals after the first, however long each of them took."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["Pace"]


class Pace:
    """Waits for the next turn, at a rate in things a second; 0 is no limit. Once stopped it waits no more."""

    def __init__(self, rate: float, stop: asyncio.Event) -> None:
        self._rate = rate
        self._stop = stop
        self._began: float | None = None
        self._count = 0

    async def next(self) -> None:
        """Wait until the next thing is due."""
        if not self._rate:
            return
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        wait_s = self._began + self._count / self._rate - now
        self._count += 1
        if wait_s > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), wait_s)
