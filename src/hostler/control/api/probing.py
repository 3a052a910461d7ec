"""A write of nothing every few seconds, to see how long writes take: a writer that stands still shows by it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hostler.control.books.stalls import Stalls
from hostler.control.fleet.waiting import wait
from hostler.control.store import Connection, Database
from hostler.errors import HostlerError

__all__ = ["WriteProbe"]

_EVERY_S = 5.0


class WriteProbe(Stalls):
    """How long writes of nothing took lately."""

    async def run(self, database: Database, stopping: asyncio.Event) -> None:
        """Probe until told to stop; a probe that fails says as much as one that is slow."""
        while not stopping.is_set():
            with suppress(HostlerError), self.timing():
                await database.write(_nothing)
            await wait(stopping, _EVERY_S)


def _nothing(connection: Connection) -> None:
    """Write nothing."""
