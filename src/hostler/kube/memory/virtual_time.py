"""An event loop in virtual time, and ``run_simulation``: the way to run a coroutine on it.

The order of ready callbacks is drawn from a seed. Nothing really waits: if nothing is ready, time jumps to the next
timer. So an hour of a scheduler takes as long as its code does, and the same seed gives the same run. A run fails if a
task is left over, or failed without being awaited. ``SimClock`` is the second implementation of
``hostler.runtime.clock``.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hostler.errors import HostlerError

__all__ = [
    "START_NS", "DeadlockError", "LeftoverError", "LivelockError", "SimClock", "SimLoop", "SimulationError",
    "run_simulation",
]  # fmt: skip

T = TypeVar("T")
START_NS = 1_767_603_600_000_000_000  # 2026-01-05T09:00:00Z, a Monday morning
NANOSECONDS = 1_000_000_000
STEPS_TO_END = 100_000


class SimulationError(HostlerError):
    """A simulated run that did not end properly."""

    code = "simulation"


class DeadlockError(SimulationError):
    """Nothing is ready, no timer is set, and the main coroutine still waits."""


class LivelockError(SimulationError):
    """The run exceeded its limit of steps or of virtual time."""


class LeftoverError(SimulationError):
    """A task failed without being awaited, or did not end when it was cancelled."""


class SimTask(asyncio.Task[Any]):
    """A task with a stable hash, so that task groups cancel in the same order in every run."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:  # noqa: ANN401 - asyncio's
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """Runs callbacks in virtual time. Without ``shuffle`` the order is asyncio's: first come, first served."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, seed: int, *, shuffle: bool = True, limit_steps: int, limit_s: float) -> None:
        super().__init__()
        self._now = 0.0
        self._draw = random.Random(seed).random if shuffle else None
        self._limit_steps = limit_steps
        self._limit_s = limit_s
        self.steps = 0
        self.complaints: list[str] = []  # what asyncio would have logged
        self.tasks: list[asyncio.Task[Any]] = []  # all of them, so that no failure goes unseen
        self.set_exception_handler(lambda _, context: self._complain(context))
        self.set_task_factory(SimLoop._remember)  # type: ignore[arg-type]

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self._now

    def extend(self, steps: int) -> None:
        """Allow more steps and unlimited time from here: cancelled tasks must be able to end."""
        self._limit_steps = self.steps + steps
        self._limit_s = float("inf")

    def _run_once(self) -> None:
        """Run one callback; if none is ready, jump to the next timer first."""
        ready = self._ready
        if not ready:
            self._jump()
        self.steps += 1
        if self.steps > self._limit_steps:
            raise LivelockError(
                f"more than {self._limit_steps} steps, at {self._now:.3f} s of virtual time: "
                f"{self._describe_waiting()}",
                hint="something spins without waiting, or the run needs a higher limit_steps",
            )
        count = len(ready)
        if count > 1 and self._draw is not None:
            chosen = int(self._draw() * count)
            ready[chosen], ready[-1] = ready[-1], ready[chosen]
            handle = ready.pop()
        else:
            handle = ready.popleft()
        if not handle._cancelled:
            handle._run()

    def _jump(self) -> None:
        """Move time to the next timer, and make all due callbacks ready."""
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        if not timers:
            raise DeadlockError(
                f"nothing can happen any more, at {self._now:.3f} s of virtual time: {self._describe_waiting()}",
                hint="each of these tasks waits for something that no other task or timer will do",
            )
        self._now = max(self._now, timers[0].when())
        if self._now > self._limit_s:
            raise LivelockError(
                f"not done after {self._limit_s:g} s of virtual time: {self._describe_waiting()}",
                hint="something is retried without end, or the run needs a higher limit_s",
            )
        while timers and timers[0].when() <= self._now:
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(timer)

    def _describe_waiting(self) -> str:
        """Describe which task waits where, for error messages."""
        lines = []
        for task in self.tasks:
            if not task.done():
                stack = task.get_stack(limit=1)
                place = f"{stack[0].f_code.co_qualname}:{stack[0].f_lineno}" if stack else "nowhere"
                lines.append(f"{task.get_name()} in {place}")
        return "; ".join(lines[:20]) or "no task is left"

    def _remember(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:  # noqa: ANN401 - asyncio's
        task = SimTask(len(self.tasks), coro, loop=self, **options)
        self.tasks.append(task)
        return task

    def _complain(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.complaints.append(f"{context.get('message')}: {error!r}" if error else str(context.get("message")))

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """Run the function at once: threads would make a run depend on the machine."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there are no files and no sockets."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps."""


class SimClock:
    """A clock that shows a fixed date plus the loop's virtual time."""

    def __init__(self, start_ns: int = START_NS) -> None:
        self._start = start_ns

    def now(self) -> int:
        """Return nanoseconds since 1970; before a loop runs, the start."""
        try:
            seconds = asyncio.get_running_loop().time()
        except RuntimeError:
            seconds = 0.0
        return self._start + round(seconds * NANOSECONDS)


def run_simulation(
    main: Callable[[], Coroutine[Any, Any, T]],
    seed: int,
    *,
    limit_steps: int = 1_000_000,
    limit_s: float = 7200.0,
    shuffle: bool = True,
) -> T:
    """Run ``main()`` to its end in virtual time; the same seed gives the same run.

    Tasks that main leaves behind are cancelled and awaited. The run fails on a deadlock, on more steps or virtual
    seconds than allowed, and on a task that failed without being awaited.
    """
    loop = SimLoop(seed, shuffle=shuffle, limit_steps=limit_steps, limit_s=limit_s)
    asyncio.set_event_loop(loop)
    try:
        try:
            result = loop.run_until_complete(main())
        finally:
            _end_tasks(loop)
        failures = loop.complaints + _unseen(loop)
        if failures:
            raise LeftoverError(f"{len(failures)} failures that were never awaited: {'; '.join(failures[:5])}")
        return result
    finally:
        for task in loop.tasks:
            task._log_traceback = False  # reported above, or a symptom of what is being raised
        asyncio.set_event_loop(None)
        loop.close()


def _end_tasks(loop: SimLoop) -> None:
    """Cancel the remaining tasks until all end: a task may wait again while it cleans up."""
    loop.extend(STEPS_TO_END)
    for _ in range(10):
        left = [task for task in loop.tasks if not task.done()]
        if not left:
            break
        for task in left:
            task.cancel()
        loop.run_until_complete(_settle(left))
    stubborn = [task.get_name() for task in loop.tasks if not task.done()]
    for task in loop.tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    if stubborn:
        raise LeftoverError(f"tasks that do not end when cancelled: {', '.join(stubborn[:5])}")
    loop.run_until_complete(loop.shutdown_asyncgens())


async def _settle(tasks: list[asyncio.Task[Any]]) -> None:
    """Give cancelled tasks a minute of virtual time to end."""
    await asyncio.wait(tasks, timeout=60.0)


def _unseen(loop: SimLoop) -> list[str]:
    """Describe failures of tasks that were never awaited."""
    return [
        f"{task.get_name()}: {task.exception()!r}"
        for task in loop.tasks
        if task.done() and not task.cancelled() and task._log_traceback
    ]
