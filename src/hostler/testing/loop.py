"""Runs a coroutine on an event loop in virtual time, and sees to it that nothing is left over or unseen.

Used by tests of everything that waits; the clock here is the second implementation of ``hostler.kube.api.clock``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hostler.testing.virtual import DeadlockError, LeftoverError, LivelockError, SimLoop, SimulationError

__all__ = [
    "START_NS",
    "DeadlockError",
    "LeftoverError",
    "LivelockError",
    "SimClock",
    "SimLoop",
    "SimulationError",
    "run_simulation",
]

T = TypeVar("T")

START_NS = 1_767_603_600_000_000_000  # 2026-01-05T09:00:00Z, a Monday morning
NANOSECONDS = 1_000_000_000
STEPS_TO_END = 100_000


class SimClock:
    """A clock that shows a fixed date plus what the running loop counted."""

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

    Tasks that main leaves behind are cancelled and awaited. The run fails when nothing can happen any more, when it
    takes more steps or virtual seconds than allowed, and when a task failed and nobody looked.
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
            raise LeftoverError(f"{len(failures)} failures that nobody saw: {'; '.join(failures[:5])}")
        return result
    finally:
        for task in loop.tasks:
            task._log_traceback = False  # reported above, or a symptom of what is being raised
        asyncio.set_event_loop(None)
        loop.close()


def _end_tasks(loop: SimLoop) -> None:
    """Cancel what still runs, until it ends: a task may wait again while it tidies up."""
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
    """Describe failures of tasks whose result nobody asked for."""
    return [
        f"{task.get_name()}: {task.exception()!r}"
        for task in loop.tasks
        if task.done() and not task.cancelled() and task._log_traceback
    ]
