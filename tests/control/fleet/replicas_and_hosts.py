"""Replicas of the control plane, hosts with their agents, and the wire between them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import msgspec

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.link import Link, ServerResponse
from hostler.agent.core.admission import Amounts
from hostler.agent.core.plan import allocations_of
from hostler.agent.drivers.fake import FakeDriver
from hostler.agent.manifest import MemoryManifest
from hostler.agent.messages import JOIN_PATH, ORDERS_PATH, REGISTER_PATH, REPORT_PATH, Join, Register, Report
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.agent.watchdog.watchdog import LeaseFile
from hostler.control.books.books import Books
from hostler.control.fleet.agent_service import AgentService
from hostler.control.fleet.duties import Duties
from hostler.control.fleet.times import FleetTimes
from hostler.control.settings import ControlSettings
from hostler.control.store import Database, open_database
from hostler.errors import ConflictError, HostlerError, InputError, UnavailableError
from hostler.runtime.transport import Request, TransportError
from tests.control.databases import PATIENT
from tests.recorded_log import recorded_log

_SECOND = 1_000_000_000
_MICROSECOND = 1_000


class JumpingClock:
    """A clock that stands until it jumps, however long the machine takes; each reading is a little later.

    Agents live by one that goes by itself and jumps with it: they send their heartbeats without being told.
    """

    def __init__(self) -> None:
        self._began, self._began_steady = time.time_ns(), time.monotonic_ns()
        self._ahead = 0
        self._looks = 0

    def jump(self, seconds: float) -> None:
        self._ahead += int(seconds * _SECOND)

    def steady(self) -> int:
        return self._began_steady + self._passed()

    def wall(self) -> int:
        return self._began + self._passed()

    def going(self) -> int:
        return time.monotonic_ns() + self._ahead

    def _passed(self) -> int:
        self._looks += 1
        return self._ahead + self._looks * _MICROSECOND


class FleetReplica:
    """One process of the control plane, by a clock that may be ahead of the others'."""

    def __init__(
        self,
        url: str,
        settings: ControlSettings,
        times: FleetTimes,
        clock: JumpingClock,
        *,
        ahead_s: float = 0.0,
        **more,
    ) -> None:
        ahead = int(ahead_s * _SECOND)
        self.database: Database = open_database(url, limits=PATIENT)
        self.clock = clock
        self.told: list[str] = []
        self.books = Books(self.database, settings, clock=lambda: time.time_ns() + ahead)
        self.fleet = AgentService(
            self.database,
            self.books,
            settings,
            times=times,
            clock=lambda: clock.wall() + ahead,
            steady=clock.steady,
            tell=self.told.append,
            **more,
        )
        self.duties = Duties(self.fleet)
        self.stopping = asyncio.Event()
        self._tasks: list[asyncio.Task] = []

    async def start(self) -> None:
        await self.books.open()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(part.run(self.stopping)) for part in (self.books, self.fleet)]

    async def stop(self) -> None:
        self.stopping.set()
        await asyncio.gather(*self._tasks)
        await self.books.close()
        await asyncio.to_thread(self.database.close)

    async def send(self, request: Request) -> ServerResponse:
        """Answer as the REST layer does."""
        address = urlsplit(request.path)
        fleet = self.fleet
        try:
            answer: msgspec.Struct | None
            if address.path == JOIN_PATH:
                answer = await fleet.join(msgspec.json.decode(request.body, type=Join))
            elif address.path == REGISTER_PATH:
                answer = await fleet.register(request.credential, msgspec.json.decode(request.body, type=Register))
            elif address.path == REPORT_PATH:
                answer = await fleet.report(request.credential, msgspec.json.decode(request.body, type=Report))
            else:
                query = parse_qs(address.query)
                version, wait_s = int(query["from"][0]), float(query["wait_s"][0])
                epoch = int(query.get("epoch", ["0"])[0])
                answer = await fleet.orders(request.credential, version, wait_s, epoch=epoch)
        except HostlerError as error:
            body = msgspec.json.encode({"code": error.code, "detail": error.message})
            return ServerResponse(status=status_of(error), body=body)
        if answer is None:
            return ServerResponse(status=204)
        return ServerResponse(status=200, body=msgspec.json.encode(answer))


def status_of(error: HostlerError) -> int:
    known = getattr(error, "status", 0)
    kinds = ((InputError, 400), (ConflictError, 409), (UnavailableError, 503))
    return known or next((status for kind, status in kinds if isinstance(error, kind)), 500)


class AgentWire:
    """The way of one agent to a replica. ``seen`` holds what was sent, for replays."""

    def __init__(self, replica: FleetReplica) -> None:
        self.replica = replica
        self.is_cut = False
        self.holds_polls = False  # before they are asked
        self.lets_polls = 0  # so many of those that are held
        self.polling = 0  # so many are asked and not answered
        self.in_flight = 0  # polls apart
        self.seen: list[Request] = []
        self.answers: list[tuple[str, int]] = []

    async def send(self, request: Request) -> ServerResponse:
        if self.is_cut:
            raise TransportError("the wire is cut")
        path = urlsplit(request.path).path
        if path in (REGISTER_PATH, REPORT_PATH):
            self.seen.append(request)
        is_poll = path == ORDERS_PATH
        while is_poll and self.holds_polls and not self.lets_polls:
            await asyncio.sleep(0.01)
        self.lets_polls -= is_poll and self.holds_polls
        self.in_flight += not is_poll
        self.polling += is_poll
        try:
            response = await self.replica.send(request)
        finally:
            self.in_flight -= not is_poll
            self.polling -= is_poll
        self.answers.append((path, response.status))
        if self.is_cut:
            raise TransportError("the wire was cut meanwhile")
        return response

    async def close(self) -> None:
        pass


class HostWithAgent:
    """A host with its agent; what a disk would keep outlives the agent."""

    def __init__(
        self, clock: JumpingClock, name: str, *, driver: FakeDriver, replica: FleetReplica, settings: AgentSettings
    ) -> None:
        self.clock = clock
        self.name = name
        self.driver = driver
        self.wire = AgentWire(replica)
        self.credentials = MemoryCredentials()
        self.manifest = MemoryManifest()
        self.lease: LeaseFile | None = None
        self.settings = settings
        self.boot = "boot-1"
        self.token = ""
        self.is_watched: Callable[[], bool] = lambda: False
        self.watched_vms = 1024  # that its watchdog stops in time, while it is watched
        self.error: HostlerError | None = None
        self.told: list[str] = []
        self._task: asyncio.Task | None = None

    @property
    def id(self) -> str:
        identity = self.credentials.load()
        assert identity is not None
        return identity.host

    @property
    def credential(self) -> str:
        identity = self.credentials.load()
        assert identity is not None
        return identity.credential

    def start(self) -> None:
        self.stopping = asyncio.Event()
        self.agent = Agent(
            Link(self.wire, self.credentials),
            self.driver,
            self.manifest,
            self.settings,
            boot=self.boot,
            run_id=uuid.uuid4().hex,
            token=self.token,
            lease=self.lease,
            watched_vms=lambda: self.watched_vms if self.is_watched() else 0,
            clock=self.clock.going,
            log=recorded_log(self.told),
        )
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self.agent.run(self.stopping)
        except HostlerError as error:
            self.error = error

    async def stop(self) -> None:
        if self._task is not None:
            self.stopping.set()
            await self._task
            self._task = None

    async def ended(self) -> HostlerError:
        """Wait until the agent gave up; return why."""
        assert self._task is not None
        await self._task
        self._task = None
        assert self.error is not None
        return self.error

    def power(self, vm: str) -> str:
        here = self.driver.vms.get(vm)
        return here.power if here is not None else "absent"

    def used(self) -> Amounts:
        """Return what the agent itself counts as taken."""
        return allocations_of(self.agent._worker.state).used
