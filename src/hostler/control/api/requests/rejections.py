"""Rejected requests: counted at once, and written to the audit log once a minute.

A rejection costs no write. Those of one caller for one reason are gathered, and become one event with their number and
the first few different actions. So a caller cannot fill the log, and its reader still sees who tried. Only rejected
changes by authenticated callers become events. Others are counted, and appear in the service's own log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request

from hostler.control.access.errors import UnauthenticatedError
from hostler.control.access.limits import Limiter, Rate, RateLimits, address_block
from hostler.control.access.secrets import bearer_of, parse_secret, redact
from hostler.control.api.requests.problems import status_of
from hostler.control.fleet.times import wait
from hostler.control.services.callers import AuditNote
from hostler.control.store import Connection, Database
from hostler.control.store.history import log
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.control.api.requests.context import ServiceContext

__all__ = [
    "RejectedRequests",
    "RejectionLog",
    "RemoteLog",
    "count_rejected_request",
    "count_rejection",
    "ended_key",
    "write_rejections",
]

WHAT = "access.refused"
_STATUSES = frozenset((401, 403, 410, 421, 426, 429))
_OF_AGENTS = frozenset((409,))  # a report that is too old
_OF_AUDIT = frozenset((401, 403, 410))
_ENDED = ("expired", "revoked", "unconfirmed")  # keys that we know, and that open nothing now
_EVERY_S = 60.0
_MOST = 1000  # callers and reasons that are told apart between two writes
_MOST_DEEDS = 10  # of one caller for one reason
_LINES = Rate(20)  # enough to see the pattern; metrics count all of them


class RejectedRequests(msgspec.Struct, kw_only=True):
    """Rejected requests of one caller for one reason since the last write, with the details of the first one.

    ``deeds`` are the rejected actions as texts, with their counts; beyond the first few only the total is counted.
    """

    actor: str
    code: str
    text: str
    request: str
    at_ns: int
    count: int = 1
    deeds: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, other: RejectedRequests) -> None:
        """Add another rejection of the same caller for the same reason."""
        self.deeds = self.deeds or {self.text: self.count}
        self.count += other.count
        if other.text in self.deeds or len(self.deeds) < _MOST_DEEDS:
            self.deeds[other.text] = self.deeds.get(other.text, 0) + other.count

    def summary(self) -> str:
        """Return the number of rejections as a text."""
        if len(self.deeds) < 2:
            return f"{_times(self.count)}: {self.text}"
        told = [f"{text} ({_times(count)})" for text, count in self.deeds.items()]
        rest = self.count - sum(self.deeds.values())
        return f"{_times(self.count)}: {'; '.join(told)}{f'; and {rest} of other kinds' if rest else ''}"


class RejectionLog:
    """The rejections of one process that are not written yet."""

    def __init__(self) -> None:
        self._gathered: dict[tuple[str, str], RejectedRequests] = {}

    def gather(self, refused: RejectedRequests) -> None:
        """Add a rejection, or count it with those of the same caller for the same reason."""
        key = (refused.actor, refused.code)
        known = self._gathered.get(key)
        if known is not None:
            known.add(refused)
        elif len(self._gathered) < _MOST:
            self._gathered[key] = refused

    def take(self) -> list[RejectedRequests]:
        """Return and clear what was gathered."""
        taken, self._gathered = self._gathered, {}
        return list(taken.values())

    async def run(self, database: Database, stopping: asyncio.Event, tell: Callable[[str], None]) -> None:
        """Write what was gathered once a minute, and a last time at the end."""
        while not stopping.is_set():
            await wait(stopping, _EVERY_S)
            taken = self.take()
            if not taken:
                continue
            for one in taken:
                tell(f"refused {one.actor} {one.summary()}")
            try:
                await database.write(lambda connection, taken=taken: write_rejections(connection, taken))  # type: ignore[misc]
            except HostlerError as error:
                tell(f"refusals are not written: {error.message}")


def count_rejected_request(context: ServiceContext, request: Request, error: HostlerError) -> None:
    """Count a rejected REST request, and gather it for the audit log if it belongs there."""
    route = getattr(request.state, "route", None)
    door = route.door if route is not None else "none"
    is_of_agent = door == "agent" and status_of(error) in _OF_AGENTS
    if route is None or is_of_agent:
        if is_of_agent or status_of(error) in _STATUSES:
            context.meters.refusal(door, error.code)
        return
    what = f"{route.method} {route.path}" if route.is_change else ""
    request_id = request.scope.get("hostler_request_id", "")
    count_rejection(
        context, error, door=door, actor=_known_actor(request, error, door), what=what, request_id=request_id
    )


def count_rejection(
    context: ServiceContext, error: HostlerError, *, door: str, actor: str, what: str, request_id: str
) -> None:
    """Count a rejection. Gather it if the ``actor`` is known and ``what`` would have been a change."""
    status = status_of(error)
    if status not in _STATUSES:
        return
    context.meters.refusal(door, error.code)
    if not actor or not what or status not in _OF_AUDIT:
        return
    text = redact(f"{what}: {error.message}")
    refused = RejectedRequests(actor=actor, code=error.code, text=text, request=request_id, at_ns=context.clock())
    context.refusals.gather(refused)


def ended_key(error: HostlerError) -> str:
    """Return the actor of a key that has ended, as the audit log names it; empty for other errors."""
    if not isinstance(error, UnauthenticatedError) or error.why not in _ENDED or not error.subject:
        return ""
    return f"key:{error.subject}"


def write_rejections(connection: Connection, refused: Sequence[RejectedRequests]) -> None:
    """Write rejections as events."""
    log.append(connection, [_entry(one) for one in refused])


def _entry(one: RejectedRequests) -> log.NewEntry:
    noted = AuditNote(what=WHAT, text=f"refused {one.summary()}", name=one.code, request=one.request)
    subject = one.actor.partition(":")[2]
    body = msgspec.json.encode(noted)
    return log.NewEntry(at_ns=one.at_ns, kind="note", body=body, actor=one.actor, subject=subject)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _known_actor(request: Request, error: HostlerError, door: str) -> str:
    """Return the rejected actor as the audit log names it; empty if the caller is unknown."""
    if isinstance(error, UnauthenticatedError):
        return ended_key(error) if door == "key" else ""
    if door != "agent":
        return str(request.scope.get("hostler_actor", ""))
    # A caller that got further than 401 has a credential that is, or was, good: its id is no secret.
    secret = bearer_of(request.headers.get("authorization", ""))
    try:
        return f"credential:{parse_secret(secret, 'credential').id}"
    except UnauthenticatedError:
        return ""


class RemoteLog:
    """Log lines about unauthenticated clients, limited per address, because their requests cost them nothing.

    ``now`` returns nanoseconds.
    """

    def __init__(self, tell: Callable[[str], None], now: Callable[[], int]) -> None:
        self._tell = tell
        self._now = now
        self._lines = Limiter(RateLimits(reads=_LINES))

    def tell(self, line: str, remote: str) -> None:
        """Write a line about a client's address, unless that address had too many lines lately."""
        if not self._lines.take(address_block(remote), self._now(), is_change=False):
            self._tell(line)
