"""The signing secret of dashboard sessions, reread from the database: any replica may have renewed it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hostler.control.access.sessions import read_signing_secret
from hostler.control.api.requests.context import ServiceContext
from hostler.errors import HostlerError

__all__ = ["refresh_signing_secret"]

_EVERY_S = 5.0  # less than the 10 s within which what was revoked counts everywhere


async def refresh_signing_secret(
    context: ServiceContext, stopping: asyncio.Event, *, every_s: float = _EVERY_S
) -> None:
    """Reread the secret now and then until ``stopping`` is set. Skipped if the database is not shared."""
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
