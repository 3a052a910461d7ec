"""A whole service in one process for tests: a real SQLite file, real books, and hosts that do as they are ordered.

Hosts are rows and facts; ``obey`` reports what their orders say, as good agents would.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from starlette.applications import Starlette

from hostler.agent.messages import Capabilities, HostSize, VmReport
from hostler.control.access import Authenticator, Limiter, RateLimits
from hostler.control.access.limits import OFF
from hostler.control.api.app import ServiceContext, make_app
from hostler.control.books import ledger
from hostler.control.books.books import Books
from hostler.control.books.follower import Step
from hostler.control.fleet.agent_service import AgentService
from hostler.control.fleet.hosts.host_body import HostBody, read_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.services import first_start
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, Database, open_database
from hostler.control.store.history import log
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms import reports
from hostler.control.vms.orders import order_for
from tests.control.databases import PATIENT
from tests.wait import until

__all__ = ["InProcessService", "fake_random", "open_service", "run_in_service"]

GIB = 1 << 30
USUAL = ControlSettings(verdict_s=60.0)  # a busy machine may let the leader stand still
_LOOKS = 20_000  # far beyond every pause
SMALL = {"cpu": "1", "memory": "1Gi"}


def fake_random(count: int) -> bytes:
    """Give bytes that differ from call to call."""
    return (time.perf_counter_ns().to_bytes(8, "big") * 8)[-count:]


class InProcessService:
    """A service and a client of it."""

    def __init__(self, database: Database, context: ServiceContext, app: Starlette, secret: str) -> None:
        self.database = database
        self.context = context
        self.app = app
        self.secret = secret
        self.said: list[str] = []
        self.running: asyncio.Task[None] | None = None
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers={"Authorization": f"Bearer {secret}"}
        )

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request as the administrator."""
        return await self.client.request(method, path, **more)

    async def as_key(self, secret: str, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request with another key."""
        headers = {"Authorization": f"Bearer {secret}", **more.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **more)

    async def key(self, role: str, project: str = "", **more: Any) -> str:
        """Return the secret of a new key."""
        answer = await self.ask("POST", "/v1/keys", json={"name": role, "role": role, "project": project, **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["secret"])

    async def create(self, name: str, *, wait: float = 0, **more: Any) -> httpx.Response:
        """Ask for a VM."""
        spec = {**SMALL, **more.pop("spec", {})}
        body = {"name": name, "spec": spec, **more}
        return await self.ask("POST", "/v1/vms", json=body, params={"wait": wait} if wait else {})

    async def add_hosts(self, *names: str, cpu: int = 4, memory_gib: int = 8, state: str = "ready") -> None:
        """Let hosts be there."""
        size = HostSize(cpu_millis=cpu * 1000, memory_bytes=memory_gib * GIB, disk_bytes=100 * GIB)
        body = HostBody(
            driver="fake",
            agent_version="1",
            size=size,
            capabilities=Capabilities(pause=True, live_migration=True, resize_running=True, disks=True),
        )

        def work(connection: Connection) -> None:
            for name in names:
                row = HostRow(id=f"id-{name}", name=name, state="joined", created_ns=1, updated_ns=1)
                hosts.insert(connection, row)
                if state != "joined":
                    ready = HostRow(id=row.id, name=name, state=state, agent="its agent", created_ns=1, updated_ns=1)
                    announce(connection, row, ready, body, actor="test", now_ns=time.time_ns())

        await self.database.write(work)
        await self._has_read()

    async def _has_read(self) -> None:
        """Wait until the books know what was written, if they follow the log at all."""
        books = self.context.books
        if self.running is not None and not self.running.done() and not books.trouble:
            head = await self.database.read(log.head)
            await until(lambda: books.seq >= head or bool(books.trouble))

    async def set_state(self, name: str, state: str) -> None:
        """Change the state of a host as the fleet would."""

        def work(connection: Connection) -> None:
            row = hosts.find_by_name(connection, name)
            assert row is not None
            changed = HostRow(**{field: getattr(row, field) for field in row.__struct_fields__} | {"state": state})
            announce(connection, row, changed, read_body(row), actor="test", now_ns=time.time_ns())

        await self.database.write(work)

    async def describe(self, name: str, **words: Any) -> None:
        """Let the agent of a host say something else of it than before."""

        def work(connection: Connection) -> None:
            row = hosts.find_by_name(connection, name)
            assert row is not None
            body = msgspec.structs.replace(read_body(row), **words)
            announce(connection, row, row, body, actor="test", now_ns=time.time_ns())

        await self.database.write(work)

    async def obey(self) -> int:
        """Let all hosts do as they are ordered, and report it; return how many VMs changed by that."""

        def work(connection: Connection) -> int:
            count = 0
            for row in hosts.all_alive(connection):
                for stored in ledger.load_of_host(connection, row.id):
                    order = order_for(stored.vm, row.id)
                    if order is None:
                        continue
                    report = VmReport(
                        vm=order.vm, state=order.power, generation=order.generation, restarts=order.restarts
                    )
                    change = reports.apply_report(stored.vm, row.id, report)
                    if change.vm != stored.vm:
                        ledger.write(connection, stored, change, actor=row.name, now_ns=time.time_ns())
                        count += 1
            return count

        return await self.database.write(work)

    async def settle(self) -> None:
        """Let books and hosts go on until nothing moves any more."""
        for _ in range(200):
            await self.caught_up()
            if not await self.obey():
                return
        raise AssertionError("it never comes to rest")

    async def caught_up(self) -> None:
        """Wait until the leader has decided about everything that is written."""
        quiet = 0
        for _ in range(_LOOKS):
            if quiet == 3:
                return
            if self.running is not None and self.running.done():
                self.running.result()
                raise AssertionError("the books have ended")
            head = await self.database.read(log.head)
            due, _ = await self.context.books.ask(lambda engine: engine.next_due())
            # Who was woken is tried again after a pause of up to ten seconds; who just waits, after minutes.
            is_quiet = self.context.books.seq == head and (due is None or due > time.time_ns() + 11 * 10**9)
            # What the engine has decided, and nobody has written down yet, is still to come.
            is_quiet = is_quiet and not self.context.books._follower.is_torn
            is_quiet = is_quiet and (self.running is None or await self.database.read(_is_decided))
            quiet = quiet + 1 if is_quiet else 0
            await asyncio.sleep(0.002)
        raise AssertionError("the leader never comes to rest")


def _is_decided(connection: Connection) -> bool:
    """Say whether the leader's last step knew all facts."""
    newest = log.read_before(connection, log.head(connection) + 1, 100, kinds=("fact", "step"))
    steps = [msgspec.json.decode(entry.body, type=Step).upto for entry in newest if entry.kind == "step"]
    facts = [entry.seq for entry in newest if entry.kind == "fact"]
    return not facts or (bool(steps) and facts[0] <= steps[0])


@asynccontextmanager
async def open_service(
    *,
    url: str = "",
    secret: str = "",
    settings: ControlSettings | None = None,
    limits: RateLimits = OFF,
    is_led: bool = True,
) -> AsyncIterator[InProcessService]:
    """Open a service on a new database: a file, unless another is named; by its first key, one that exists."""
    settings = settings or USUAL
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(url or f"sqlite:///{Path(folder) / 'control.db'}", limits=PATIENT)
        prepared = await database.write(lambda connection: first_start.prepare(connection, time.time_ns(), fake_random))
        secret = prepared or secret
        assert secret
        said: list[str] = []
        books = Books(database, settings, tell=said.append)
        authenticator = Authenticator(database, limits=limits)
        context = ServiceContext(
            database=database,
            books=books,
            fleet=AgentService(database, books, settings, authenticator=authenticator),
            settings=settings,
            authenticator=authenticator,
            limiter=Limiter(limits),
            host_names=frozenset(("localhost",)),
            tell=said.append,
        )
        service = InProcessService(database, context, make_app(context), secret)
        service.said = said
        await books.open()
        stopping = asyncio.Event()
        running = asyncio.ensure_future(books.run(stopping)) if is_led else None
        service.running = running
        try:
            while running is not None and not books.is_leader:
                if running.done():
                    running.result()
                await asyncio.sleep(0.005)
            yield service
        finally:
            context.stopping.set()
            stopping.set()
            if running is not None:
                await running
            await service.client.aclose()
            await books.close()
            await database.aclose()


def run_in_service(scenario: Callable[[InProcessService], Awaitable[None]]) -> None:
    """Play a scenario in a service with two hosts of 4 cpus."""

    async def play() -> None:
        async with open_service() as service:
            await service.add_hosts("a", "b")
            await service.settle()
            await scenario(service)

    asyncio.run(play())
