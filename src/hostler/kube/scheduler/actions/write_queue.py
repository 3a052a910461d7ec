"""Writes with lower priority than binds: conditions and nominations first, then events.

On a machine that is short of CPU an event costs as much as a bind, so few of them are written while binds wait. None is
dropped while the process lives: a write is repeated until the server accepts it or rejects it permanently. Used by
``statuses``, ``reports`` and ``evictor``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from hostler.kube.api.failures import ApiError
from hostler.kube.scheduler.actions.pressure import Breaker, Window
from hostler.runtime.clock import Clock
from hostler.runtime.transport import TransportError

__all__ = ["Write", "WriteQueue", "WriteQueueCounts"]

Write: TypeAlias = Callable[[], Awaitable[None]]

_WHILE_BUSY = 1
_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_NO_LONGER_THERE = (404, 409)  # the object is gone or another one, or the event is written already


class _Job(msgspec.Struct):
    """A write and the number of failed attempts."""

    write: Write
    tries: int = 0


class WriteQueueCounts(msgspec.Struct):
    """Numbers of these writes by outcome."""

    written: int = 0
    repeated: int = 0
    moot: int = 0  # their object is gone
    refused: int = 0  # rejected permanently
    last_refusal: str = ""


class WriteQueue:
    """Two lanes of writes, urgent ones first."""

    def __init__(
        self,
        clock: Clock,
        *,
        most: int,
        is_busy: Callable[[], bool],
        may_write: Callable[[], bool],
        breaker: Breaker,
    ) -> None:
        self.counts = WriteQueueCounts()
        self.window = Window(most, start=8)
        self._clock = clock
        self._is_busy = is_busy
        self._may_write = may_write
        self._breaker = breaker
        self._urgent: deque[_Job] = deque()
        self._later: deque[_Job] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._resting: dict[int, asyncio.TimerHandle] = {}  # writes that are retried later
        self._number = 0
        self._is_over = False

    @property
    def backlog(self) -> int:
        """Return the number of unfinished writes."""
        return len(self._urgent) + len(self._later) + len(self._tasks) + len(self._resting)

    def soon(self, write: Write) -> None:
        """Add an urgent write."""
        self._take(self._urgent, write)

    def later(self, write: Write) -> None:
        """Add a write that is not urgent."""
        self._take(self._later, write)

    def _take(self, lane: deque[_Job], write: Write) -> None:
        if not self._is_over:
            lane.append(_Job(write))
            self.pump()

    def pump(self) -> None:
        """Start the writes that may start now."""
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
            task.add_done_callback(self._on_task_end)

    async def drain(self, seconds: float) -> int:
        """Wait for all writes, at most this long; return how many are left."""
        try:
            async with asyncio.timeout(seconds):
                while self.backlog:
                    self.pump()
                    await asyncio.wait(set(self._tasks), timeout=_PAUSE_S) if self._tasks else await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        return self.backlog

    async def abort(self) -> None:
        """Drop everything at once, and all later writes."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._urgent.clear()
        self._later.clear()
        for timer in self._resting.values():
            timer.cancel()
        self._resting.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _pump_in(self, wait_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is None:
            self.pump()

    async def _carry_out(self, job: _Job, lane: deque[_Job]) -> None:
        now = self._clock.now
        try:
            await job.write()
        except ApiError as error:
            if error.is_away:
                self._breaker.fail(now())
            else:
                self._breaker.succeed()
            if error.status == 429:
                self.window.shrink(now(), error.retry_after_s or _PAUSE_S)
            if error.is_worth_retrying:
                self._again(job, lane, error.retry_after_s or 0.0)
            elif error.status in _NO_LONGER_THERE:
                self.counts.moot += 1
            else:
                self.counts.refused += 1
                self.counts.last_refusal = error.message
        except TransportError:
            self._breaker.fail(now())
            self.window.shrink(now(), _PAUSE_S)
            self._again(job, lane, 0.0)
        except Exception as error:  # an unreadable response, or a bug of ours: other writes must continue
            self._breaker.succeed()
            self.counts.refused += 1
            self.counts.last_refusal = f"{type(error).__name__}: {error}"
        else:
            self._breaker.succeed()
            self.window.grow()
            self.counts.written += 1

    def _again(self, job: _Job, lane: deque[_Job], wait_s: float) -> None:
        """Retry a write behind the others, with growing delay: one rejected object must not block the rest."""
        self.counts.repeated += 1
        job.tries += 1
        self._number += 1
        number = self._number

        def come_back() -> None:
            self._resting.pop(number, None)
            lane.append(job)
            self.pump()

        pause_s = max(wait_s, min(_LONGEST_PAUSE_S, _PAUSE_S * 2 ** min(job.tries - 1, 6)))
        self._resting[number] = asyncio.get_running_loop().call_later(pause_s, come_back)
