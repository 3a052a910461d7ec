"""Writes that may come after binds: conditions and nominations, then events.

On a machine that is short of time an event costs as much as a bind, so few of them are written while binds wait. None
is dropped while the process lives: a write is repeated until the server takes it or says why it never will. Used by
``statuses``, ``reports`` and ``evictor``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from hostler.kube.api.clock import Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.transport import TransportError
from hostler.kube.scheduler.pressure import Breaker, Window

__all__ = ["Trail", "TrailCounts", "Write"]

Write: TypeAlias = Callable[[], Awaitable[None]]

_WHILE_BUSY = 2
_PAUSE_S = 1.0
_NO_LONGER_THERE = (404, 409)  # the object is gone or another one; an event that we wrote already


class TrailCounts(msgspec.Struct):
    """What became of these writes so far."""

    written: int = 0
    repeated: int = 0
    moot: int = 0  # what they were about is gone
    refused: int = 0  # the server will never take them
    last_refusal: str = ""


class Trail:
    """Two lanes of writes: urgent ones first."""

    def __init__(
        self,
        clock: Clock,
        *,
        most: int,
        is_busy: Callable[[], bool],
        may_write: Callable[[], bool],
        breaker: Breaker,
    ) -> None:
        self.counts = TrailCounts()
        self.window = Window(most, start=8)
        self._clock = clock
        self._is_busy = is_busy
        self._may_write = may_write
        self._breaker = breaker
        self._urgent: deque[Write] = deque()
        self._later: deque[Write] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def backlog(self) -> int:
        """Return how many writes are not done."""
        return len(self._urgent) + len(self._later) + len(self._tasks)

    def soon(self, write: Write) -> None:
        """Take a write that others may wait for."""
        self._urgent.append(write)
        self.pump()

    def later(self, write: Write) -> None:
        """Take a write that nobody waits for."""
        self._later.append(write)
        self.pump()

    def pump(self) -> None:
        """Begin what may begin now."""
        now = self._clock.now()
        while self._urgent or self._later:
            lane = self._urgent or self._later
            room = min(self.window.size, _WHILE_BUSY) if lane is self._later and self._is_busy() else self.window.size
            if len(self._tasks) >= room:
                return
            wait_s = max(self.window.paused_for(now), self._breaker.wait_s(now), 0.0 if self._may_write() else _PAUSE_S)
            if wait_s > 0:
                self._pump_in(wait_s)
                return
            self._breaker.begin()
            task = asyncio.get_running_loop().create_task(self._carry_out(lane.popleft(), lane))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def drain(self, seconds: float) -> int:
        """Wait for all writes, at most so long; return how many are left."""
        try:
            async with asyncio.timeout(seconds):
                while self.backlog:
                    self.pump()
                    await asyncio.wait(set(self._tasks), timeout=_PAUSE_S) if self._tasks else await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        return self.backlog

    async def abort(self) -> None:
        """Drop everything at once."""
        if self._timer is not None:
            self._timer.cancel()
        self._urgent.clear()
        self._later.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _pump_in(self, wait_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is None:
            self.pump()

    async def _carry_out(self, write: Write, lane: deque[Write]) -> None:
        now = self._clock.now
        try:
            await write()
        except ApiError as error:
            if error.status >= 500:
                self._breaker.fail(now())
            else:
                self._breaker.succeed()
            if error.is_worth_retrying:
                self._again(write, lane, error.retry_after_s or _PAUSE_S)
            elif error.status in _NO_LONGER_THERE:
                self.counts.moot += 1
            else:
                self.counts.refused += 1
                self.counts.last_refusal = error.message
        except TransportError:
            self._breaker.fail(now())
            self._again(write, lane, _PAUSE_S)
        else:
            self._breaker.succeed()
            self.window.grow()
            self.counts.written += 1

    def _again(self, write: Write, lane: deque[Write], wait_s: float) -> None:
        self.counts.repeated += 1
        self.window.shrink(self._clock.now(), wait_s)
        lane.appendleft(write)
