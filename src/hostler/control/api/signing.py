"""What sessions of the dashboard are signed with, kept as the database has it: any replica may have made it anew."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hostler.control.access.sessions import read_signing_secret
from hostler.control.api.context import Context
from hostler.errors import HostlerError

__all__ = ["follow_signing"]

_EVERY_S = 5.0  # less than the 10 s within which what was revoked counts everywhere


async def follow_signing(context: Context, stopping: asyncio.Event, *, every_s: float = _EVERY_S) -> None:
    """Read it now and then until told to stop; who has a database for himself has nothing to read."""
    if not context.database.is_shared:
        await stopping.wait()
    while not stopping.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(every_s):
                await stopping.wait()
        try:
            context.signing = await context.database.read(read_signing_secret) or context.signing
        except HostlerError as error:
            context.tell(f"what sessions are signed with could not be read: {error.message}")
