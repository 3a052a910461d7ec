"""Waiting for what others do: a look again and again, however slow the machine is; the guard is against hanging."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

GUARD_S = 120


async def until(is_so: Callable[[], object]) -> None:
    """Look until something is so."""
    async with asyncio.timeout(GUARD_S):
        while not is_so():
            await asyncio.sleep(0.01)
