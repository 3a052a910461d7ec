"""What agents talk to: join, register, report, orders. Any replica answers any agent.

Errors and the HTTP status that each becomes (those with a ``status`` attribute carry it):

- 400 ``InputError``: a message that can never be right
- 401 ``UnauthenticatedError``, ``JoinRejectedError``: no credential or token of ours
- 403 ``ForbiddenError``: a message that belongs to another host than its credential
- 409 ``StaleReportError``: older than what we know, or not registered here: the agent registers again; also
  ``HostExistsError`` for a name that is taken, ``AgentInUseError`` for the id of another host's agent
- 410 ``HostDeletedError``: the host was deleted
- 422 ``MessageBoundsError``: names too long, or too many of something
- 426 ``UnsupportedProtocolError``: neither version N nor N-1
- 429 ``TooManyRequestsError`` with ``retry_after_s``
- 503 ``UnavailableError`` (database and so on) with Retry-After; ``DeviceNamesFullError`` at a first registration

``orders`` returns None for 204. A heartbeat costs no SQL but a look at all credentials every few seconds.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Callable, Sequence

import msgspec

from hostler.agent.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    HostSize,
    Join,
    Joined,
    Orders,
    Register,
    Registered,
    Report,
    Reported,
    Tries,
)
from hostler.control.access import Authenticator, UnauthenticatedError, tokens
from hostler.control.access.secrets import Random
from hostler.control.books.books import Books
from hostler.control.fleet import presence
from hostler.control.fleet.agents.credential_cache import CredentialCache
from hostler.control.fleet.agents.host_orders import OrdersQuery, read_orders
from hostler.control.fleet.agents.message_bounds import bound_registration, bound_report
from hostler.control.fleet.agents.registrations import take_registration
from hostler.control.fleet.agents.reports import HostReport, take_reports
from hostler.control.fleet.agents.sessions import AgentSession, AgentSessions
from hostler.control.fleet.errors import StaleReportError, UnsupportedProtocolError
from hostler.control.fleet.history_time import HistoryTime
from hostler.control.fleet.hosts.devices import leave_devices_out
from hostler.control.fleet.hosts.host_body import HostBody, limit_of, read_body
from hostler.control.fleet.hosts.host_writes import agent_of, announce, get_live_host
from hostler.control.fleet.hosts.restored_vms import set_aside
from hostler.control.fleet.presence import Presence
from hostler.control.fleet.times import FleetTimes, times_for, wait
from hostler.control.fleet.watchdog_times import stop_age_s
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, Database
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.errors import HostlerError

__all__ = ["AgentService"]

_NAMED = 8  # protocols, in a refusal
_replace = msgspec.structs.replace


class AgentService:
    """The agents' side of one replica. ``run`` must run, so that other replicas know which hosts this one hears."""

    def __init__(
        self,
        database: Database,
        books: Books,
        settings: ControlSettings,
        *,
        authenticator: Authenticator | None = None,
        times: FleetTimes | None = None,
        protocols: range = range(max(OLDEST_PROTOCOL, PROTOCOL - 1), PROTOCOL + 1),
        clock: Callable[[], int] = time.time_ns,  # noqa: TID251 - rows and facts bear wall times
        steady: Callable[[], int] = time.monotonic_ns,
        random: Random = secrets.token_bytes,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.database = database
        self.books = books
        books.before_leading = lambda connection: set_aside(connection, now_ns=self.clock())
        books.on_hosts_rejected = lambda connection, why: leave_devices_out(connection, why, now_ns=self.clock())
        self.settings = settings
        self.times = times or times_for(settings)
        self.clock = clock
        self.steady = steady
        self.tell = tell
        self.on_tries: Callable[[Tries], None] = lambda tries: None  # told what agents tried, each try once
        self.presence = Presence(steady)
        self.history = HistoryTime(database, books, clock=clock, steady=steady, tell=tell)
        self.sessions = AgentSessions()
        # The orders that each host has, the news when they were read, and the epoch under which it asked.
        self._given: dict[str, tuple[int, int, int]] = {}
        self._doorkeeper = authenticator or Authenticator(database)
        self._protocols = protocols
        self._random = random
        self.credentials = CredentialCache(
            database, self._doorkeeper, self.sessions, life_s=self.times.roll_s, clock=clock, steady=steady
        )

    async def join(self, message: Join, remote: str = "") -> Joined:
        """Exchange a one-time token for a credential, which is shown only once."""
        protocol = self._common(message.protocols)
        now_ns = self.clock()
        self._doorkeeper.guard.check(remote, now_ns)

        def work(connection: Connection) -> Joined:
            return self._join(connection, message, protocol, now_ns)

        try:
            joined = await self.database.write(work)
        except UnauthenticatedError:
            self._doorkeeper.guard.note_failure(remote, now_ns)
            raise
        self.forget(joined.host)
        return joined

    def _join(self, connection: Connection, message: Join, protocol: int, now_ns: int) -> Joined:
        admitted = tokens.join(
            connection,
            message.token,
            name=message.name,
            identity=uuid.uuid4().hex,
            now_ns=now_ns,
            random=self._random,
        )
        before = admitted.host
        state = "joined" if admitted.is_new else before.state
        row = _replace(before, state=state, epoch=before.epoch + (not admitted.is_new))
        body = _replace(read_body(row), protocol=protocol, is_locked_out=False)
        text = f"joined with token {admitted.token}"
        row = announce(connection, before, row, body, actor=agent_of(row.id), now_ns=now_ns, text=text)
        return Joined(host=row.id, credential=admitted.credential, protocol=protocol)

    async def register(self, credential: str, message: Register, remote: str = "") -> Registered:
        """Store all that a host is and has; its reports count from now on under a new epoch."""
        host = await self.credentials.host_of(credential, remote)
        message = bound_registration(message)
        now_ns, news = self.clock(), self.books.subscriptions.count_notices(host)
        lacks_names = self._lacking_names(message.size)

        def work(connection: Connection) -> tuple[HostRow, HostBody, str]:
            before = get_live_host(connection, host)
            tokens.check_credential(connection, credential, host=host, now_ns=now_ns)
            known = read_body(before)
            protocol = self._common(message.protocols or (known.protocol,))
            is_same = (before.boot, before.agent) == (message.boot, message.agent)
            fresh = ""
            if known.must_rotate or tokens.may_lack_new_credential(connection, credential, is_same=is_same):
                _, fresh = tokens.rotate_credential(connection, credential, now_ns=now_ns, random=self._random)
            row, body = take_registration(
                connection,
                host,
                message,
                protocol=protocol,
                settings=self.settings,
                lacks_names=lacks_names,
                now_ns=now_ns,
            )
            return row, body, fresh

        try:
            row, body, fresh = await self.database.write(work)
        except UnauthenticatedError:
            self._doorkeeper.forget(host)
            self.credentials.invalidate()  # it is older than the end of this credential
            raise
        if fresh:
            self.credentials.invalidate()  # it does not know that one
        told_s = stop_age_s(body, self.settings)
        self.sessions.open(
            AgentSession(
                host=host,
                boot=row.boot,
                agent=row.agent,
                epoch=row.epoch,
                since=self.steady(),
                generation=row.generation,
                news=news,
                is_watched=body.is_watched,
                watched_vms=body.watched_vms,
                must_relearn=body.must_relearn,
                told_stop_s=told_s,
                is_told_kept=body.told_stop_s == told_s,
            )
        )
        self.presence.note(host)
        return self._registered(row, body, fresh)

    def _registered(self, row: HostRow, body: HostBody, credential: str) -> Registered:
        settings = self.settings
        return Registered(
            epoch=row.epoch,
            heartbeat_s=settings.heartbeat_s,
            silent_after_s=settings.silent_after_s,
            stop_after_s=stop_age_s(body, settings),
            limit=limit_of(row, body, settings),
            credential=credential,
            protocol=body.protocol,
        )

    async def report(self, credential: str, message: Report, remote: str = "") -> Reported:
        """Store what changed on a host; a report without news writes nothing."""
        host = await self.credentials.host_of(credential, remote)
        message = bound_report(message)
        await self._look_again(host, message)
        session = self.sessions.admit(host, message)  # from here to the queue of writes nothing may wait
        self.presence.note(host)
        if session.is_heartbeat(message):
            self._count_tries(message)
            return Reported()
        now_ns, must_resync = self.clock(), session.has_relearned(message)

        told = HostReport(
            host=host,
            message=message,
            has_relearned=must_resync,
            told_stop_s=session.told_stop_s,
            settings=self.settings,
            lacks_names=self._lacking_names(message.size),
            now_ns=now_ns,
        )
        session.is_watched = None
        try:
            body = await self.database.write_jointly(take_reports, told)
        except StaleReportError:
            self.sessions.drop(host)
            raise
        session.refused_teardown, session.is_watched = body.refused_teardown, body.is_watched
        session.is_told_kept, session.watched_vms = True, body.watched_vms
        self._count_tries(message)
        return Reported(resync=must_resync)

    def _lacking_names(self, size: HostSize | None) -> str:
        """Say why the engine has no room for a host's device names; empty if it has."""
        if size is None or not size.devices:
            return ""
        return self.books.lacking_names({one.kind for one in size.devices}, {one.model for one in size.devices})

    def _count_tries(self, message: Report) -> None:
        """Count what an agent tried when its report is answered; an unanswered report is sent again."""
        if message.tries is not None:
            self.on_tries(message.tries)

    async def _look_again(self, host: str, message: Report) -> None:
        """Drop a registration that another replica has replaced, as soon as there is news of its host.

        Reports with news are compared with the database anyway. A mere heartbeat is not, and without this check two
        agents of one host would both believe that they are heard.
        """
        session, news = self.sessions.find(host), self.books.subscriptions.count_notices(host)
        if session is None or session.news == news or not self.database.is_shared or not session.is_heartbeat(message):
            return
        row = await self.database.read(lambda connection: hosts.find_some(connection, [host]).get(host))
        session.news = news
        if row is not None and row.epoch > session.epoch and self.sessions.find(host) is session:
            self.sessions.drop(host)

    async def orders(
        self, credential: str, from_version: int, wait_s: float, remote: str = "", *, epoch: int = 0
    ) -> Orders | None:
        """Return all orders of a host as soon as they are newer than a version; None after the timeout.

        If the agent sends the epoch of its registration, they are given only while it is valid; StaleReportError.
        """
        host = await self.credentials.host_of(credential, remote)
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(wait_s, 0.0), self.times.longest_poll_s)
        with self.books.watch("host", host) as news:
            while True:
                known = self.books.subscriptions.count_notices(host)
                found = None
                if self._given.get(host) != (from_version, known, epoch):  # else nothing came since these were given
                    found = await self.database.read_jointly(read_orders, OrdersQuery(host, from_version, epoch))
                    self._given[host] = (found.version if found is not None else from_version, known, epoch)
                left_s = until - loop.time()
                if found is not None or left_s <= 0 or not await news.wait(left_s):
                    return found
                await self.credentials.host_of(credential, remote)  # an agent locked out meanwhile gets nothing

    def forget(self, host: str) -> None:
        """Invalidate all that is known of a host; call it after a commit that revoked, rotated or deleted something."""
        self._given.pop(host, None)
        self._doorkeeper.forget(host)
        self.sessions.drop(host)
        self.credentials.invalidate()
        # News of the commit may have woken its polls before it was known here who is locked out: they look again.
        self.books.subscriptions.notify((), (host,))

    async def run(self, stopping: asyncio.Event) -> None:
        """Drop deleted hosts, and publish which hosts this replica hears, until told to stop."""
        while not stopping.is_set():
            self.presence.keep(self.credentials.rows)
            if self.database.is_shared and not self.books.is_leader:
                try:
                    await self._publish()
                except HostlerError as error:
                    self.tell(f"the hosts that this replica hears could not be stored: {error.message}")
            await wait(stopping, self.times.publish_s)

    async def _publish(self) -> None:
        ages, now_ns = self.presence.ages(), self.clock()
        await self.database.write(lambda connection: presence.publish(connection, self.books.replica, ages, now_ns))

    def _common(self, spoken: Sequence[int]) -> int:
        """Return the newest protocol that both sides speak; UnsupportedProtocolError."""
        common = [one for one in spoken if one in self._protocols]
        if common:
            return max(common)
        theirs = ", ".join(map(str, spoken[:_NAMED])) or "none"
        ours = f"{self._protocols.start} to {self._protocols[-1]}"
        raise UnsupportedProtocolError(
            f"the agent speaks protocol {theirs}; this control plane speaks {ours}",
            hint="bring the older side to the other's version, and start the agent again",
        )
