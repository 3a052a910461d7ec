"""What the routes work with: one instance per process."""

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
from hostler.control.api.requests.rejections import RejectionLog
from hostler.control.api.requests.remote_log import RemoteLog
from hostler.control.api.requests.write_probe import WriteProbe
from hostler.control.books.books import Books
from hostler.control.fleet.agent_service import AgentService
from hostler.control.settings import ControlSettings
from hostler.control.store import Database

__all__ = ["ServiceContext"]


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
