"""How tests wait: for a state, never for a number of seconds.

A test looks again and again until the state is there, however slow the machine is. After a minute it gives up and
fails with what it saw last, so that an unlucky run explains itself. The minute guards against hanging and measures
nothing: no test passes or fails by being quick.
"""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

__all__ = ["GIVE_UP_S", "until", "wait_for_exit", "wait_until"]

T = TypeVar("T")

GIVE_UP_S = 60.0
_PAUSE_S = 0.02  # between two looks


def wait_until(look: Callable[[], T], what: str = "", saw: Callable[[], object] | None = None) -> T:
    """Return what ``look`` finds once that is true. ``saw`` adds to the failure what else is known, such as a log."""
    deadline = time.monotonic() + GIVE_UP_S
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(_describe_failure(look, what, found, saw))
        time.sleep(_PAUSE_S)
    return found


async def until(
    look: Callable[[], T] | Callable[[], Awaitable[T]], what: str = "", saw: Callable[[], object] | None = None
) -> T:
    """Return what ``look``, a function or a coroutine function, finds once that is true."""
    found: Any = "nothing: the look itself did not return"
    try:
        async with asyncio.timeout(GIVE_UP_S):
            while True:
                seen: Any = look()
                found = await seen if inspect.isawaitable(seen) else seen
                if found:
                    return found
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        raise AssertionError(_describe_failure(look, what, found, saw)) from None


def wait_for_exit(process: subprocess.Popen[Any], saw: Callable[[], object] | None = None) -> int:
    """Return a process's exit code once it has ended."""
    try:
        return process.wait(GIVE_UP_S)
    except subprocess.TimeoutExpired:
        known = f"\n{saw()}" if saw is not None else ""
        raise AssertionError(f"process {process.pid} did not end within {GIVE_UP_S:.0f} s{known}") from None


def _describe_failure(look: Callable[..., object], what: str, found: object, saw: Callable[[], object] | None) -> str:
    lines = [f"gave up after {GIVE_UP_S:.0f} s waiting for {what or _source(look)}", f"saw last: {found!r}"]
    if saw is not None:
        lines.append(str(saw()))
    return "\n".join(lines)


def _source(look: Callable[..., object]) -> str:
    try:
        return " ".join(inspect.getsource(look).split())
    except (OSError, TypeError):
        return getattr(look, "__qualname__", repr(look))
