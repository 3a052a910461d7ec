"""What the routes work with: one of each for a process, made by whoever starts the service."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hostler.control.access import Doorkeeper, Limiter
from hostler.control.access.secrets import Random
from hostler.control.api.asking import Asking
from hostler.control.api.metering import Meters
from hostler.control.api.probing import WriteProbe
from hostler.control.api.refusals import Refusals
from hostler.control.api.strangers import Strangers
from hostler.control.api.streams import Streams
from hostler.control.books.books import Books
from hostler.control.fleet.fleet import Fleet
from hostler.control.settings import ControlSettings
from hostler.control.store import Database

__all__ = ["Context"]


@dataclass(kw_only=True)
class Context:
    """Database, books and fleet of this replica, and who stands at the door.

    ``host_names`` are those that a Host header may have (``access.listening.allowed_names``); empty: any.
    ``signing`` is what sessions of the dashboard are signed with (``access.sessions.signing_secret``); empty: none.
    ``stopping`` is set when the service ends, so that streams and waits end too.
    """

    database: Database
    books: Books
    fleet: Fleet
    settings: ControlSettings
    doorkeeper: Doorkeeper
    limiter: Limiter
    host_names: frozenset[str] = frozenset()
    signing: bytes = b""
    clock: Callable[[], int] = time.time_ns  # noqa: TID251 - rows and keys bear wall times
    random: Random = secrets.token_bytes
    tell: Callable[[str], None] = lambda line: None
    meters: Meters = field(default_factory=Meters)
    refusals: Refusals = field(default_factory=Refusals)
    asking: Asking = field(default_factory=Asking)
    writes: WriteProbe = field(default_factory=WriteProbe)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    strangers: Strangers = field(init=False)
    streams: Streams = field(init=False)

    def __post_init__(self) -> None:
        self.strangers = Strangers(lambda line: self.tell(line), lambda: self.clock())
        self.doorkeeper.on_forget = lambda: self.books.watchers.tell((), ())
        self.books.on_placed = self.meters.placed
        self.fleet.on_tries = self.meters.tries
        self.streams = Streams(most_each=self.settings.streams_each, most=self.settings.streams)
