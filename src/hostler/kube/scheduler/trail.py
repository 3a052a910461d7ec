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

_WHILE_BUSY = 1
_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_NO_LONGER_THERE = (404, 409)  # the object is gone or another one; an event that we wrote already


class _Job(msgspec.Struct):
    """A write, and how often it was tried in vain."""

    write: Write
    tries: int = 0


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
        self._urgent: deque[_Job] = deque()
        self._later: deque[_Job] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._resting: dict[int, asyncio.TimerHandle] = {}  # writes that are tried again later
        self._number = 0
        self._is_over = False

    @property
    def backlog(self) -> int:
        """Return how many writes are not done."""
        return len(self._urgent) + len(self._later) + len(self._tasks) + len(self._resting)

    def soon(self, write: Write) -> None:
        """Take a write that others may wait for."""
        self._take(self._urgent, write)

    def later(self, write: Write) -> None:
        """Take a write that nobody waits for."""
        self._take(self._later, write)

    def _take(self, lane: deque[_Job], write: Write) -> None:
        if not self._is_over:
            lane.append(_Job(write))
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
        """Drop everything at once, and all that is still asked for."""
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

    def _ended(self, task: asyncio.Task[None]) -> None:
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
        except Exception as error:  # an answer that cannot be read, or a bug of ours: others must not suffer
            self._breaker.succeed()
            self.counts.refused += 1
            self.counts.last_refusal = f"{type(error).__name__}: {error}"
        else:
            self._breaker.succeed()
            self.window.grow()
            self.counts.written += 1

    def _again(self, job: _Job, lane: deque[_Job], wait_s: float) -> None:
        """Try a write again behind the others, ever later: what one object refuses must not hold up the rest."""
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
