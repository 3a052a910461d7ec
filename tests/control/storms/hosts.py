"""Hosts of a test: real agents in this process, over HTTP, on fakes that count what their VMs take at every moment."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import httpx
import msgspec

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.http import HttpTransport
from hostler.agent.connection.link import Link, ServerResponse
from hostler.agent.drivers.fake import FakeDriver, FakeWires
from hostler.agent.manifest import MemoryManifest
from hostler.agent.messages import REGISTER_PATH, REPORT_PATH, HostSize, Report
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.runtime.transport import Request, TransportError
from tests.control.storms.service import ServiceProcess
from tests.wait import until

__all__ = ["GIB", "PeakCountingDriver", "StormHost", "Way", "fleet", "size_of"]

GIB = 2**30
_AGAIN_S, _TRIES = 0.1, 100
_TAKES = ("running", "paused", "landing")


def size_of(cpu: int) -> HostSize:
    """Return a host for so many VMs of one cpu and 1 GiB."""
    return HostSize(cpu_millis=cpu * 1000, memory_bytes=cpu * GIB, disk_bytes=1024 * GIB)


class Hasty(random.Random):
    """Chance that makes agents wait a tenth as long before they try again: rounds of deaths are many."""

    def random(self) -> float:
        """Return what turns 1 s and some more into 0.1 s."""
        return -3.0


class PeakCountingDriver(FakeDriver):
    """A fake that remembers the most that its VMs ever took together."""

    peak_cpu_millis = 0
    peak_memory_bytes = 0

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.lingering: dict[str, asyncio.Event] = {}  # VMs that end no sooner than this happens

    async def stop(self, vm: str, *, grace_s: float) -> None:
        """End a VM as soon as that is allowed."""
        await self._linger(vm)
        await super().stop(vm, grace_s=grace_s)

    async def delete(self, vm: str, *, keeps_shared: bool = False) -> None:
        """Remove a VM as soon as that is allowed."""
        await self._linger(vm)
        await super().delete(vm, keeps_shared=keeps_shared)

    async def _linger(self, vm: str) -> None:
        if vm in self.lingering:
            await self.lingering[vm].wait()

    def _did(self, verb: str, vm: str) -> None:
        super()._did(verb, vm)
        alive = [one.order for one in self.vms.values() if one.power in _TAKES]
        self.peak_cpu_millis = max(self.peak_cpu_millis, sum(order.cpu_millis for order in alive))
        self.peak_memory_bytes = max(self.peak_memory_bytes, sum(order.memory_bytes for order in alive))


class Way:
    """The way of one agent to any of several replicas, as through a balancer; keeps what was sent and answered.

    A connection that is refused has carried nothing, so another one is tried; one that broke is the agent's affair.
    """

    def __init__(self, transports: Sequence[HttpTransport], first: int) -> None:
        self._transports = transports
        self._at = first % len(transports)
        self.sent: list[tuple[Request, ServerResponse]] = []

    async def send(self, request: Request) -> ServerResponse:
        """Pass a request on."""
        for _ in range(_TRIES):
            try:
                response = await self._transports[self._at].send(request)
            except TransportError as error:
                self._at = (self._at + 1) % len(self._transports)
                if "Cannot connect" not in error.message:
                    raise
                await asyncio.sleep(_AGAIN_S)
            else:
                if request.path in (REGISTER_PATH, REPORT_PATH):
                    self.sent.append((request, response))
                return response
        raise TransportError("nobody answers", hint="")

    async def close(self) -> None:
        """Do nothing: the connections are shared."""


class StormHost:
    """One host: its driver, its way, and the agent."""

    def __init__(self, name: str, driver: PeakCountingDriver, way: Way, token: str, seed: int) -> None:
        self.name = name
        self.driver = driver
        self.way = way
        self.credentials = MemoryCredentials()
        self.agent = Agent(
            Link(way, self.credentials),
            driver,
            MemoryManifest(),
            AgentSettings(name=name, look_s=0.5),  # a VM that landed is found by a look
            boot=f"boot of {name}",
            run_id=str(uuid.UUID(int=random.Random(f"{seed} {name}").getrandbits(128))),
            token=token,
            rng=Hasty(),
        )

    def refused_for_room(self) -> list[str]:
        """Return the VMs that its agent ever said have no room here."""
        reports = [msgspec.json.decode(request.body, type=Report) for request in self._reports()]
        return [vm.vm for report in reports for vm in report.vms if vm.trouble and vm.trouble.code == "no_room"]

    def _reports(self) -> list[Request]:
        return [request for request, _ in self.way.sent if request.path == REPORT_PATH]


@asynccontextmanager
async def fleet(
    services: Sequence[ServiceProcess],
    names: Sequence[str],
    size: HostSize,
    *,
    seed: int = 0,
    delays_s: Mapping[str, float] = MappingProxyType({}),
):
    """Run hosts until the end of the block; they begin with one replica or the other in turn."""
    transports = [HttpTransport(service.address) for service in services]
    wires, stopping = FakeWires(), asyncio.Event()
    headers = {"Authorization": f"Bearer {services[0].key}"}
    tasks: list[asyncio.Task[None]] = []
    try:
        async with httpx.AsyncClient(base_url=services[0].address, headers=headers, timeout=120) as client:
            hosts = []
            for number, name in enumerate(names):
                token = (await client.post("/v1/tokens", json={"host_name": name})).json()["secret"]
                driver = PeakCountingDriver(name, size=size, wires=wires, seed=seed + number, delays_s=delays_s)
                hosts.append(StormHost(name, driver, Way(transports, number), token, seed))
            tasks = [asyncio.create_task(host.agent.run(stopping), name=host.name) for host in hosts]

            async def are_in() -> bool:
                found = (await client.get("/v1/hosts", params={"limit": 500})).json()["items"]
                return sum(host["state"] == "ready" for host in found) == len(names)

            await until(are_in, "all hosts are in")
        yield hosts
        for task in tasks:
            assert not task.done(), f"{task.get_name()} ended: {task.exception()!r}"
    finally:
        stopping.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        for transport in transports:
            await transport.close()
