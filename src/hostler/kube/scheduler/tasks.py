"""The tasks that a scheduler consists of: begun with a name, waited for together, and their end explained.

Used by ``process``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from hostler.errors import HostlerError, InternalError

__all__ = ["before", "death", "failure_of", "first", "start"]


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
