"""A control plane with pages on loopback: real database, books and server; hosts are rows that nobody stands behind.

It runs in a thread of its own, so that a browser can be driven from the test's.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import uvicorn

from hostler.agent.messages import Capabilities, HostSize, Trouble, VmReport
from hostler.control.access import Authenticator, Limiter, Principal
from hostler.control.access.keys import create_key
from hostler.control.access.limits import OFF
from hostler.control.api.app import make_app
from hostler.control.api.http_server import Server
from hostler.control.api.requests.call import new_id
from hostler.control.api.requests.context import ServiceContext
from hostler.control.books import ledger
from hostler.control.books.books import Books
from hostler.control.fleet.agent_service import AgentService
from hostler.control.fleet.hosts.host_body import HostBody
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.schemas import ProjectCreate, QuotaCreate, VmCreate
from hostler.control.services import first_start
from hostler.control.services.callers import Caller
from hostler.control.services.tenancy import projects, quotas
from hostler.control.services.vms import vm_changes
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, open_database
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms import reports
from hostler.control.vms.spec import DiskSpec, VmSpec
from hostler.web.routes import mount
from tests.wait import GIVE_UP_S, wait_until

T = TypeVar("T")
ADMIN = Principal(id="tests", role="admin", name="tests")
GI = 2**30


class WebService:
    """The service, and ways to change what it knows."""

    def __init__(self, folder: Path) -> None:
        self.database = open_database(f"sqlite:///{folder}/control.db")
        # Nobody competes for the lease: a machine that stands still for a while changes nothing.
        self.settings = ControlSettings(lease_ttl_s=600.0, verdict_s=120.0)
        self.key = ""
        self.url = ""

    # -- from the test's thread ------------------------------------------------------------------------------------

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the service's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(GIVE_UP_S)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write to the database."""
        return self.do(self.database.write(work))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read from the database."""
        return self.do(self.database.read(work))

    def caller(self) -> Caller:
        return Caller(principal=ADMIN, now_ns=time.time_ns())

    def create(self, name: str, *, project: str = "default", **spec: Any) -> str:
        """Ask for a VM and return its id."""
        asked = VmCreate(name=name, project=project, spec=VmSpec(**({"cpu": "2", "memory": "4Gi"} | spec)))
        return self.write(lambda connection: vm_changes.create(connection, asked, self.caller(), new_id)).vm.id

    def vm(self, identity: str) -> ledger.StoredVm:
        return self.read(lambda connection: ledger.load(connection, identity))

    def until_decided(self, identities: list[str]) -> None:
        """Wait until each of these is placed, or was refused."""
        for identity in identities:
            wait_until(partial(self.is_decided, identity))

    def is_decided(self, identity: str) -> bool:
        found = self.vm(identity).vm
        return found.home is not None or bool(found.why)

    def report(self, identity: str, state: str = "running", trouble: Trouble | None = None) -> None:
        """Say as its agent would that a VM is as ordered, or what is in the way."""

        def work(connection: Connection) -> None:
            stored = ledger.load(connection, identity)
            assert stored.vm.home is not None
            home = stored.vm.home
            generation = home.generation if trouble is None else 0
            told = VmReport(
                vm=identity, state=state, generation=generation, restarts=stored.vm.restarts, trouble=trouble
            )
            change = reports.apply_report(stored.vm, home.host, told)
            ledger.write(connection, stored, change, actor="agent", now_ns=time.time_ns())

        self.write(work)

    def make_key(self, role: str, project: str = "") -> str:
        """Return the secret of a new key."""

        def work(connection: Connection) -> str:
            now_ns = time.time_ns()
            return create_key(
                connection, by=ADMIN, name=role, role=role, project=project, now_ns=now_ns, random=secrets.token_bytes
            )[1]

        return self.write(work)

    def add_hosts(self, count: int, *, first: int = 0, cpu: int = 16) -> None:
        """Add hosts as their agents' registrations would."""

        def work(connection: Connection) -> None:
            for at in range(first, first + count):
                add_host(connection, at, cpu)

        self.write(work)

    # -- the service's thread --------------------------------------------------------------------------------------

    async def serve(self, started: threading.Event) -> None:
        self.loop = asyncio.get_running_loop()
        self.stop = asyncio.Event()
        self.books = Books(self.database, self.settings)
        authenticator = Authenticator(self.database)
        self.context = ServiceContext(
            database=self.database,
            books=self.books,
            fleet=AgentService(self.database, self.books, self.settings, authenticator=authenticator),
            settings=self.settings,
            authenticator=authenticator,
            limiter=Limiter(OFF),
        )
        now_ns = time.time_ns()
        first = await self.database.write(lambda one: first_start.prepare(one, now_ns, secrets.token_bytes))
        assert first is not None
        self.key = first
        self.app = app = make_app(self.context)
        mount(app, self.context)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=5)
            server = Server(config)
            await self.books.open()
            books = asyncio.ensure_future(self.books.run(self.stop))
            serving = asyncio.ensure_future(server._serve([listener]))
            while not server.started:
                await asyncio.sleep(0.01)
            started.set()
            await self.stop.wait()
            self.context.stopping.set()
            server.should_exit = True
            await asyncio.gather(serving, books)
        await self.books.close()
        await self.database.aclose()


@contextmanager
def run_service_in_thread(folder: Path) -> Iterator[WebService]:
    """Run a service until the block ends."""
    service = WebService(folder)
    started = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(service.serve(started))
        except BaseException as error:
            failures.append(error)
            started.set()

    thread = threading.Thread(target=run, name="service")
    thread.start()
    try:
        assert started.wait(GIVE_UP_S)
        if failures:
            raise failures[0]
        yield service
    finally:
        if not failures:
            service.loop.call_soon_threadsafe(service.stop.set)
        thread.join(GIVE_UP_S)
    assert not failures, failures


def add_host(connection: Connection, at: int, cpu: int) -> None:
    """Write one host, ready, and tell the engine of it."""
    now_ns = time.time_ns()
    zone = "abc"[at % 3]
    body = HostBody(
        driver="fake",
        agent_version="1.0",
        capabilities=Capabilities(pause=True, live_migration=True, resize_running=True, disks=True),
        size=HostSize(cpu_millis=cpu * 1000, memory_bytes=cpu * 4 * GI, disk_bytes=500 * GI),
        labels=(("zone", zone),),
        storages=("san",) if at % 2 else (),
    )
    row = hosts.insert(connection, HostRow(id=f"h{at:04}", name=f"host-{at:02}", state="joined", created_ns=now_ns))
    ready = msgspec.structs.replace(row, state="ready", seen_ns=now_ns)
    announce(connection, row, ready, body, actor="agent", now_ns=now_ns)


def fill(service: WebService) -> dict[str, str]:
    """Make a fleet of 20 hosts with a life of its own; return some VMs by name."""
    service.add_hosts(20)
    caller = service.caller()
    service.write(lambda one: projects.create(one, ProjectCreate(name="shop", description="The web shop"), caller))
    limits = QuotaCreate(project="shop", min={"cpu": "24"}, max={"cpu": "40", "memory": "200Gi"})
    service.write(lambda one: quotas.create(one, limits, caller, {}))
    made: dict[str, str] = {}
    for at in range(24):
        size = {"cpu": str(1 + at % 6), "memory": f"{2 + at % 5 * 6}Gi", "priority": at % 3}
        disks = [DiskSpec(size=f"{20 + at * 5}Gi")] if at % 4 == 0 else []
        made[f"web-{at:02}"] = service.create(f"web-{at:02}", disks=disks, labels={"app": "web"}, **size)
    for at in range(6):
        made[f"shop-{at}"] = service.create(f"shop-{at}", project="shop", cpu="4", memory="8Gi")
    made["giant"] = service.create("giant", cpu="64", memory="32Gi", priority=5)
    made["picky"] = service.create("picky", host_selector={"zone": "nowhere"})
    service.until_decided(list(made.values()))
    for name, identity in made.items():
        if service.vm(identity).vm.home is not None and name not in ("web-05", "web-06"):
            service.report(identity)
    return made
