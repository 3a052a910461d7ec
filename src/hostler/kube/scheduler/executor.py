"""Where the engine runs: in a thread of its own on a live cluster, inline in a simulation.

A long step must not starve lease renewals and probes, and one thread at a time may touch the engine. The longest stall
is remembered. Used by ``loop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

__all__ = ["Executor", "Inline", "OwnThread"]

T = TypeVar("T")


class Executor(Protocol):
    """Runs work that nobody else may do at the same time."""

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work and return its result."""
        ...

    def close(self) -> None:
        """Take no more work."""
        ...


class Inline:
    """Does the work at once, between two awaits."""

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work and return its result."""
        return work()

    def close(self) -> None:
        """There is nothing to end."""


class OwnThread:
    """One thread, so that work is done in the order in which it came."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work in the thread and wait for its result."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """End the thread after the work at hand."""
        self._pool.shutdown(wait=False, cancel_futures=True)
