"""What the routes work with: one instance per process, with its probe of the database."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hostler.control.access import Authenticator, Limiter
from hostler.control.access.secrets import Random
from hostler.control.api.requests.meters import Meters
from hostler.control.api.requests.open_streams import Streams
from hostler.control.api.requests.question_limits import QuestionLimits
from hostler.control.api.requests.rejections import RejectionLog, RemoteLog
from hostler.control.books.books import Books
from hostler.control.fleet.agent_service import AgentService
from hostler.control.fleet.times import wait
from hostler.control.settings import ControlSettings
from hostler.control.store import Database
from hostler.control.store.errors import DatabaseFullError, OverloadedError
from hostler.control.store.history.log import touch
from hostler.errors import HostlerError
from hostler.runtime.stalls import Stalls

__all__ = ["ServiceContext", "WriteProbe"]

_PROBE_EVERY_S = 5.0
_NO_WRITES = "the database takes no changes"


class WriteProbe(Stalls):
    """A small write every few seconds, to see whether writes reach the disk, and how long they take.

    It reveals a writer that hangs, and a full disk even if nothing else writes. ``trouble`` is the reason why probes
    fail; empty if they succeed.
    """

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
            await wait(stopping, _PROBE_EVERY_S)

    def _note(self, failure: HostlerError | None, tell: Callable[[str], None]) -> None:
        line = "" if failure is None else f"writes to the database fail: {failure.message}; {failure.hint}"
        if line != self._told:
            tell(line or "writes to the database succeed again")
        self._told = line
        if failure is None:
            self.trouble = ""
        else:
            self.trouble = "the disk of the database is full" if isinstance(failure, DatabaseFullError) else _NO_WRITES


@dataclass(kw_only=True)
class ServiceContext:
    """The parts of a replica: database, books, fleet, authentication, limits, metrics.

    ``host_names`` are the accepted Host headers (``access.listen_addresses.allowed_names``); empty accepts any.
    ``signing`` signs sessions of the dashboard (``access.sessions.signing_secret``); empty means no sessions.
    ``stopping`` is set when the service ends, so that streams and waits end too.
    """

    database: Database
    books: Books
    fleet: AgentService
    settings: ControlSettings
    authenticator: Authenticator
    limiter: Limiter
    host_names: frozenset[str] = frozenset()
    signing: bytes = b""
    clock: Callable[[], int] = time.time_ns  # noqa: TID251 - rows and keys bear wall times
    random: Random = secrets.token_bytes
    tell: Callable[[str], None] = lambda line: None
    meters: Meters = field(default_factory=Meters)
    refusals: RejectionLog = field(default_factory=RejectionLog)
    asking: QuestionLimits = field(default_factory=QuestionLimits)
    writes: WriteProbe = field(default_factory=WriteProbe)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    strangers: RemoteLog = field(init=False)
    streams: Streams = field(init=False)

    def __post_init__(self) -> None:
        self.strangers = RemoteLog(lambda line: self.tell(line), lambda: self.clock())
        self.authenticator.on_forget = lambda: self.books.subscriptions.notify((), ())
        self.books.on_placed = self.meters.placed
        self.fleet.on_tries = self.meters.tries
        self.streams = Streams(most_each=self.settings.streams_each, most=self.settings.streams)
