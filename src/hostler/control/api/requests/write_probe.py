"""A small write every few seconds, to see whether writes reach the disk, and how long they take.

It reveals a writer that hangs, and a full disk even if nothing else writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hostler.control.fleet.times import wait
from hostler.control.store import Database
from hostler.control.store.errors import DatabaseFullError, OverloadedError
from hostler.control.store.history.log import touch
from hostler.errors import HostlerError
from hostler.runtime.stalls import Stalls

__all__ = ["WriteProbe"]

_EVERY_S = 5.0
_FAIL = "the database takes no changes"


class WriteProbe(Stalls):
    """The durations of recent probes. ``trouble`` is the reason why they fail; empty if they succeed."""

    trouble = ""
    _told = ""

    async def run(
        self, database: Database, stopping: asyncio.Event, tell: Callable[[str], None] = lambda line: None
    ) -> None:
        """Probe until ``stopping`` is set. Log when writes begin to fail, and when they succeed again."""
        while not stopping.is_set():
            failure: HostlerError | None = None
            try:
                with self.timing():
                    await database.write(touch)
            except OverloadedError:
                pass  # others write, which is what keeps this one out
            except HostlerError as error:
                failure = error
            self._note(failure, tell)
            await wait(stopping, _EVERY_S)

    def _note(self, failure: HostlerError | None, tell: Callable[[str], None]) -> None:
        line = "" if failure is None else f"writes to the database fail: {failure.message}; {failure.hint}"
        if line != self._told:
            tell(line or "writes to the database succeed again")
        self._told = line
        if failure is None:
            self.trouble = ""
        else:
            self.trouble = "the disk of the database is full" if isinstance(failure, DatabaseFullError) else _FAIL
