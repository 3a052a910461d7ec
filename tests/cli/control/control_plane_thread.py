"""A whole control plane in a thread of this process: SQLite, books, REST on loopback, and fake hosts that joined it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from pathlib import Path

from hostler.agent.connection.http import HttpTransport
from hostler.agent.messages import DeviceHere, HostSize
from hostler.agent.simulated_fleet import FleetPlan, SimulatedFleet
from hostler.control.access.limits import OFF
from hostler.control.client import Client, ServerTarget
from hostler.control.schemas import TokenCreate
from hostler.control.service import ServiceOptions, Tls, serve
from hostler.control.settings import ControlSettings
from tests.wait import GIVE_UP_S, wait_until

GIB = 2**30
GPUS = (DeviceHere(kind="gpu", model="t4"),) * 2
SIZE = HostSize(cpu_millis=8000, memory_bytes=16 * GIB, disk_bytes=100 * GIB, devices=GPUS)
# Nobody competes for the lease, and no host dies: a machine that stands still for a while changes nothing.
SETTINGS = ControlSettings(
    listen="127.0.0.1:0", heartbeat_s=0.5, silent_after_s=600.0, stop_after_s=500.0, lease_ttl_s=600.0, verdict_s=120.0
)


class ControlPlaneThread:
    """A control plane that runs; ``key`` is the first administrator's."""

    def __init__(self, folder: Path, tls: Tls | None = None) -> None:
        self._tls = tls
        self.key = ""
        self.address = ""
        self.folder = folder
        self.fleet: SimulatedFleet | None = None
        self._hosts: tuple[str, ...] = ()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._leaving = asyncio.Event()
        self._have_left = threading.Event()
        self._is_up = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="plane")

    def start(self, hosts: tuple[str, ...]) -> None:
        """Start it, and wait until all hosts are in."""
        self._hosts = hosts
        self._thread.start()
        assert self._is_up.wait(GIVE_UP_S), "the control plane did not start"
        if self._error is not None:
            raise self._error
        if hosts:
            with self.client() as client:
                wait_until(lambda: sum(host.state == "ready" for host in client.hosts.list()) == len(hosts))

    def stop(self) -> None:
        """End it, and raise what went wrong."""
        self._loop.call_soon_threadsafe(self._leaving.set)
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(GIVE_UP_S)
        assert not self._thread.is_alive(), "the control plane did not end"
        if self._error is not None:
            raise self._error

    def end_agents(self) -> None:
        """End the agents and return when none is left: hosts that live come back from whatever is said of them."""
        self._loop.call_soon_threadsafe(self._leaving.set)
        assert self._have_left.wait(GIVE_UP_S), "the agents did not end"

    def client(self, key: str = "") -> Client:
        """Return a client of the administrator's, or by another key."""
        return Client(ServerTarget(server=self.address, key=key or self.key))

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._live())
        except BaseException as error:
            self._error = error
        finally:
            self._is_up.set()

    async def _live(self) -> None:
        ready = asyncio.Event()

        def is_ready(address: str) -> None:
            self.address = address
            ready.set()

        how = ServiceOptions(
            settings=SETTINGS,
            database_url=f"sqlite:///{self.folder / 'plane.db'}",
            tls=self._tls,
            limits=OFF,
            on_admin_key=lambda key: setattr(self, "key", key),
            on_ready=is_ready,
        )
        ending = asyncio.Event()
        serving = asyncio.ensure_future(serve(how, ending))
        waiting = asyncio.ensure_future(ready.wait())
        await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if serving.done():
            serving.result()
        try:
            await self._with_hosts()
        finally:
            ending.set()
            await serving

    async def _with_hosts(self) -> None:
        if not self._hosts:
            self._is_up.set()
            await self._stopping.wait()
            return
        transport = HttpTransport(self.address)
        self.fleet = SimulatedFleet(transport, FleetPlan(names=self._hosts, size=SIZE), self._token)
        self._is_up.set()
        try:
            await self.fleet.run(self._leaving)
        finally:
            await transport.close()
        self._have_left.set()
        await self._stopping.wait()

    async def _token(self, name: str) -> str:
        def ask() -> str:
            with self.client() as client:
                return client.tokens.create(TokenCreate(host_name=name)).secret

        return await asyncio.to_thread(ask)


@contextmanager
def plane(folder: Path, *hosts: str, tls: Tls | None = None):
    """Run a control plane with hosts of 8 cpus, 16Gi of memory and 100Gi of disk."""
    running = ControlPlaneThread(folder, tls)
    running.start(hosts)
    try:
        yield running
    finally:
        running.stop()
