"""The tasks that a scheduler consists of: begun with a name, waited for together, and their end explained.

Those that carry out one action each are many and nobody waits for them; ``Accidents`` notices when one fails.

Used by ``process``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from hostler.errors import HostlerError, InternalError

__all__ = ["Accidents", "before", "death", "failure_of", "first", "start"]


class Accidents:
    """Learns what tasks failed with that nobody waits for."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._first: BaseException | None = None

    def watch(self, task: asyncio.Task[None]) -> None:
        """Look at a task that ended."""
        error = failure_of(task)
        if error is not None and self._first is None:
            self._first = error
            self._happened.set()

    async def wait(self) -> None:
        """Wait for the first failure, and fail with it."""
        await self._happened.wait()
        assert self._first is not None
        raise self._first


def start(name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Begin some work; its name is told where it ends badly."""
    return asyncio.get_running_loop().create_task(work, name=name)


async def first(stopping: asyncio.Task[Any], tasks: Sequence[asyncio.Task[Any]]) -> asyncio.Task[Any]:
    """Wait until one of the tasks ends; of several at once, a request to stop comes last."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return next((task for task in tasks if task.done() and task is not stopping), stopping)


def failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    """Return what a task failed with; None where it did not, or not yet."""
    return task.exception() if task.done() and not task.cancelled() else None


def death(task: asyncio.Task[Any]) -> InternalError:
    """Say which part of a scheduler ended, and why."""
    error = failure_of(task)
    why = error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
    found = InternalError(
        f"{task.get_name()} ended: {why if error is not None else 'nobody asked for it'}",
        hint="please report it; a scheduler that is started again goes on where this one stopped",
    )
    found.__cause__ = error
    return found


async def before(stopping: asyncio.Future[Any], work: Awaitable[None]) -> bool:
    """Wait for work, but not longer than until we are to stop; say whether it was done."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({stopping, task}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return False
    await task
    return True
