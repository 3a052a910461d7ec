"""Async tests that need a world of their own: a virtual clock, a fleet of QEMU hosts, an API server in memory.

A plain ``async def test_…`` runs on an ordinary event loop. A test that needs another loop or other surroundings names
the helper that sets them up: ``@run_with(play, limits=…)``. What the helper hands over comes as positional-only
parameters, before the fixtures: ``async def test_x(stage, /, tmp_path)``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["run_with"]

AsyncTest = Callable[..., Awaitable[None]]


def run_with(
    helper: Callable[..., object], *options: object, **named: object
) -> Callable[[AsyncTest], Callable[..., None]]:
    """Return a decorator that lets this helper run an async test with these options."""

    def decorate(test: AsyncTest) -> Callable[..., None]:
        signature = inspect.signature(test)
        fixtures = [one for one in signature.parameters.values() if one.kind is not one.POSITIONAL_ONLY]

        @functools.wraps(test)
        def run(**values: Any) -> None:
            async def story(*given: object) -> None:
                await test(*given, **values)

            helper(story, *options, **named)

        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return decorate
