"""The tasks that a process consists of: started with a name, waited for together, and their end explained.

``run_parts`` is the usual way: parts run until the first of them ends, then all end. A scheduler stops its parts in an
order of its own and uses the steps behind it. Tasks that carry out one action each are many and
are not awaited: ``TaskFailures`` notices when one fails.

Invariant: no task is left behind. The function that starts tasks ends and awaits them, even if it is canceled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from hostler.errors import HostlerError, InternalError

__all__ = [
    "TaskFailures", "end_tasks", "failure_of", "finish_before", "first_to_end", "run_parts", "start_task",
    "unexpected_end",
]  # fmt: skip


class TaskFailures:
    """Records the failures of tasks that are not awaited."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._first: BaseException | None = None

    def note(self, task: asyncio.Task[None]) -> None:
        """Check a task that ended."""
        error = failure_of(task)
        if error is not None and self._first is None:
            self._first = error
            self._happened.set()

    async def wait(self) -> None:
        """Wait for the first failure, and fail with it."""
        await self._happened.wait()
        assert self._first is not None
        raise self._first


def start_task(name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start some work; its name is logged if it fails."""
    return asyncio.get_running_loop().create_task(work, name=name)


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and await them; their errors are left to their callers."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def run_parts(parts: Mapping[str, Coroutine[Any, Any, Any]]) -> None:
    """Run parts by name until the first of them ends, and end the others; raise what it failed with.

    A part that waits for the request to stop makes the others stop with it.
    """
    tasks = [start_task(name, work) for name, work in parts.items()]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(tasks)
    for task in ended:
        task.result()


async def first_to_end(stopping: asyncio.Task[Any], tasks: Sequence[asyncio.Task[Any]]) -> asyncio.Task[Any]:
    """Wait until one of the tasks ends; of several at once, a request to stop comes last."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return next((task for task in tasks if task.done() and task is not stopping), stopping)


async def finish_before(stopping: asyncio.Future[Any], work: Awaitable[None]) -> bool:
    """Wait for work, but not longer than until the request to stop; say whether it was done."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({stopping, task}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        await end_tasks([task])
        return False
    await task
    return True


def failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    """Return what a task failed with; None if it did not, or not yet."""
    return task.exception() if task.done() and not task.cancelled() else None


def unexpected_end(task: asyncio.Task[Any], hint: str) -> InternalError:
    """Return the error that says which part of a process ended, and why."""
    error = failure_of(task)
    why = error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
    found = InternalError(
        f"{task.get_name()} ended: {why if error is not None else 'no stop was requested'}", hint=hint
    )
    found.__cause__ = error
    return found
