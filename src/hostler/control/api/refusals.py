"""Who was refused what: counted at once, and for the audit written together once a minute.

A refusal costs no write: those of one caller for one reason are gathered, and become one event that says how many they
were, and of what: the first few deeds that differ, each with its number. So nobody fills the log by knocking, and
whoever reads it sees who tried. Only refused changes by callers whom we know are events: strangers are counted, and
told of in the service's own log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request

from hostler.control.access.errors import UnauthenticatedError
from hostler.control.access.secrets import bearer_of, parse_secret, redact
from hostler.control.api.problems import status_of
from hostler.control.fleet.waiting import wait
from hostler.control.services.callers import Noted
from hostler.control.store import Connection, Database, log
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.control.api.context import Context

__all__ = ["Refusals", "Refused", "ended_key", "note_refusal", "note_refused", "write_refusals"]

WHAT = "access.refused"
_STATUSES = frozenset((401, 403, 410, 421, 426, 429))
_OF_AGENTS = frozenset((409,))  # a report that is too old
_OF_AUDIT = frozenset((401, 403, 410))
_ENDED = ("expired", "revoked", "unconfirmed")  # keys that we know, and that open nothing now
_EVERY_S = 60.0
_MOST = 1000  # callers and reasons that are told apart between two writes
_MOST_DEEDS = 10  # of one caller for one reason


class Refused(msgspec.Struct, kw_only=True):
    """What one caller was refused for one reason since this was written last; how it was the first time.

    ``deeds`` are what was refused, in words, with how often each was; beyond the first few they are only counted.
    """

    actor: str
    code: str
    text: str
    request: str
    at_ns: int
    count: int = 1
    deeds: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, other: Refused) -> None:
        """Count another refusal of the same caller for the same reason."""
        self.deeds = self.deeds or {self.text: self.count}
        self.count += other.count
        if other.text in self.deeds or len(self.deeds) < _MOST_DEEDS:
            self.deeds[other.text] = self.deeds.get(other.text, 0) + other.count

    def said(self) -> str:
        """Say how often what was refused."""
        if len(self.deeds) < 2:
            return f"{_times(self.count)}: {self.text}"
        told = [f"{text} ({_times(count)})" for text, count in self.deeds.items()]
        rest = self.count - sum(self.deeds.values())
        return f"{_times(self.count)}: {'; '.join(told)}{f'; and {rest} of other kinds' if rest else ''}"


class Refusals:
    """Those of one process that are not written yet."""

    def __init__(self) -> None:
        self._gathered: dict[tuple[str, str], Refused] = {}

    def gather(self, refused: Refused) -> None:
        """Remember a refusal, or count it to those of the same caller for the same reason."""
        key = (refused.actor, refused.code)
        known = self._gathered.get(key)
        if known is not None:
            known.add(refused)
        elif len(self._gathered) < _MOST:
            self._gathered[key] = refused

    def take(self) -> list[Refused]:
        """Return what was gathered since this was asked last."""
        taken, self._gathered = self._gathered, {}
        return list(taken.values())

    async def run(self, database: Database, stopping: asyncio.Event, tell: Callable[[str], None]) -> None:
        """Write down what was gathered once a minute, and a last time at the end."""
        while not stopping.is_set():
            await wait(stopping, _EVERY_S)
            taken = self.take()
            if not taken:
                continue
            for one in taken:
                tell(f"refused {one.actor} {one.said()}")
            try:
                await database.write(lambda connection, taken=taken: write_refusals(connection, taken))  # type: ignore[misc]
            except HostlerError as error:
                tell(f"refusals are not written: {error.message}")


def note_refusal(context: Context, request: Request, error: HostlerError) -> None:
    """Count an answer of REST that refuses a caller, and gather it for the audit where that is due."""
    route = getattr(request.state, "route", None)
    door = route.door if route is not None else "none"
    is_of_agent = door == "agent" and status_of(error) in _OF_AGENTS
    if route is None or is_of_agent:
        if is_of_agent or status_of(error) in _STATUSES:
            context.meters.refusal(door, error.code)
        return
    what = f"{route.method} {route.path}" if route.is_change else ""
    request_id = request.scope.get("hostler_request_id", "")
    note_refused(context, error, door=door, actor=_known_actor(request, error, door), what=what, request_id=request_id)


def note_refused(context: Context, error: HostlerError, *, door: str, actor: str, what: str, request_id: str) -> None:
    """Count a refusal, and gather it if the ``actor`` is known and ``what`` he wanted would have changed something."""
    status = status_of(error)
    if status not in _STATUSES:
        return
    context.meters.refusal(door, error.code)
    if not actor or not what or status not in _OF_AUDIT:
        return
    text = redact(f"{what}: {error.message}")
    refused = Refused(actor=actor, code=error.code, text=text, request=request_id, at_ns=context.clock())
    context.refusals.gather(refused)


def ended_key(error: HostlerError) -> str:
    """Return whose key it was that opens nothing any more, as the audit names it; nothing for other refusals."""
    if not isinstance(error, UnauthenticatedError) or error.why not in _ENDED or not error.subject:
        return ""
    return f"key:{error.subject}"


def write_refusals(connection: Connection, refused: Sequence[Refused]) -> None:
    """Write refusals as events."""
    log.append(connection, [_entry(one) for one in refused])


def _entry(one: Refused) -> log.NewEntry:
    noted = Noted(what=WHAT, text=f"refused {one.said()}", name=one.code, request=one.request)
    subject = one.actor.partition(":")[2]
    body = msgspec.json.encode(noted)
    return log.NewEntry(at_ns=one.at_ns, kind="note", body=body, actor=one.actor, subject=subject)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _known_actor(request: Request, error: HostlerError, door: str) -> str:
    """Return who was refused, as the audit names it; nothing for whom we do not know."""
    if isinstance(error, UnauthenticatedError):
        return ended_key(error) if door == "key" else ""
    if door != "agent":
        return str(request.scope.get("hostler_actor", ""))
    # Whoever comes further than 401 has a credential that is, or was, good: its id is no secret.
    secret = bearer_of(request.headers.get("authorization", ""))
    try:
        return f"credential:{parse_secret(secret, 'credential').id}"
    except UnauthenticatedError:
        return ""
