"""A pause that ends early when the service stops."""

from __future__ import annotations

import asyncio

__all__ = ["wait"]


async def wait(stopping: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until told to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return
