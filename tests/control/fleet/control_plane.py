"""A control plane and its hosts in one process: real books, a real agent service, real agents on fake drivers.

Agents reach a replica through a wire in memory that can be cut or led to another replica. The control plane's time
stands still and jumps when a test says so. The leader's duties run when a test says so, and leadership passes on when
it stops.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from hostler.agent.core.admission import Amounts
from hostler.agent.drivers.fake import FakeDriver, FakeWires
from hostler.agent.messages import HostSize
from hostler.agent.settings import AgentSettings
from hostler.control.access import Principal, tokens
from hostler.control.books import ledger
from hostler.control.books.follower import Step
from hostler.control.books.ledger import StoredVm
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.presence import Presence, read_hearsay
from hostler.control.fleet.times import FleetTimes, times_for
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, Database
from hostler.control.store.history import log
from hostler.control.store.rows import hosts, placements, projects, vms
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Vm, VmChange
from hostler.engine import Engine
from hostler.engine.state.records import PLACED_STATES
from hostler.model import CPU, MEMORY, amount_of
from hostler.model.resources import STORAGE
from tests.control.fleet.replicas_and_hosts import FleetReplica, HostWithAgent, JumpingClock
from tests.wait import GIVE_UP_S, until

GIB = 2**30
SIZE = HostSize(cpu_millis=8000, memory_bytes=16 * GIB, disk_bytes=100 * GIB)
ADMIN = Principal(id="key-1", role="admin")
SETTINGS = ControlSettings(heartbeat_s=0.05, lease_ttl_s=3600.0)


def spec(**rest) -> VmSpec:
    return VmSpec(**({"cpu": "1", "memory": "1Gi"} | rest))


class ControlPlane:
    """Replicas, hosts and what tests do to them. Use ``run_control_plane(...)``."""

    def __init__(
        self, url: str, settings: ControlSettings, times: FleetTimes, *, longest_pause_s: float = 0.0, **more
    ) -> None:
        self.url = url
        self.settings = settings
        self.longest_pause_s = longest_pause_s  # 0: a leader that just began judges hosts after silent_after_s alone
        self.times = self._with_pause(times)
        self.more = more
        self.clock = JumpingClock()
        self.wires = FakeWires()
        self.replicas: list[FleetReplica] = []
        self.hosts: dict[str, HostWithAgent] = {}
        self._numbers = 0

    def _with_pause(self, times: FleetTimes) -> FleetTimes:
        return msgspec.structs.replace(times, longest_pause_s=self.longest_pause_s)

    @property
    def leader(self) -> FleetReplica:
        return next((one for one in self.replicas if one.books.is_leader), self.replicas[0])

    @property
    def database(self) -> Database:
        return self.leader.database

    async def add_replica(self, *, ahead_s: float = 0.0, settings: ControlSettings | None = None) -> FleetReplica:
        settings = settings or self.settings
        replica = FleetReplica(self.url, settings, self.times, self.clock, ahead_s=ahead_s, **self.more)
        self.replicas.append(replica)
        await replica.start()
        if len(self.replicas) == 1:
            await until(lambda: replica.books.is_leader)
        return replica

    async def restart(self, settings: ControlSettings) -> None:
        """Stop all replicas, and start one with other settings, to which all agents find their way."""
        wires = [host.wire for host in self.hosts.values()]
        were_cut = [wire.is_cut for wire in wires]
        for wire in wires:
            wire.is_cut = True
        await until(lambda: not any(wire.in_flight or wire.polling for wire in wires))
        for replica in self.replicas:
            await replica.stop()
        self.replicas = []
        self.settings, self.times = settings, self._with_pause(times_for(settings))
        replica = await self.add_replica()
        for wire, was_cut in zip(wires, were_cut, strict=True):
            wire.replica, wire.is_cut = replica, was_cut

    async def join(
        self, name: str, *, replica: FleetReplica | None = None, size: HostSize = SIZE, watchdog: bool = False, **driver
    ) -> HostWithAgent:
        """Let a host join, with a watchdog that its agent sees work or without, and wait until it is ready."""
        settings = AgentSettings(name=name, storages=("shared",), look_s=0.05, poll_s=1.0, resync_s=3.0, grace_s=0.0)
        made = FakeDriver(name, size=size, wires=self.wires, **driver)
        host = HostWithAgent(self.clock, name, driver=made, replica=replica or self.replicas[0], settings=settings)
        host.is_watched = lambda: watchdog
        self.hosts[name] = host
        host.token = await self.token()
        host.start()
        await self.until_host(name, "ready")
        return host

    async def token(self, host_name: str = "") -> str:
        now_ns = self.clock.wall()
        _, secret = await self.database.write(
            lambda connection: tokens.create_token(
                connection, by=ADMIN, host_name=host_name, now_ns=now_ns, random=_random
            )
        )
        return secret

    # -- hosts -----------------------------------------------------------------------------------------------------

    async def row(self, name: str) -> HostRow:
        found = await self.database.read(lambda connection: hosts.find_by_name(connection, name))
        assert found is not None
        return found

    async def until_host(self, name: str, state: str) -> HostRow:
        async def look() -> HostRow | None:
            found = await self.database.read(lambda connection: hosts.find_by_name(connection, name))
            return found if found is not None and found.state == state else None

        return await until(look)

    async def until_watched(self, name: str, is_watched: bool) -> None:
        async def look() -> bool:
            return read_body(await self.row(name)).is_watched == is_watched

        await until(look)

    async def operate(self, work, host: HostWithAgent, **arguments):
        """Do what an operator does, as services do it."""
        now_ns = self.clock.wall()
        result = await self.database.write(
            lambda connection: work(connection, host.id, actor="key:1", now_ns=now_ns, **arguments)
        )
        for replica in self.replicas:
            replica.fleet.forget(host.id)
        return result

    async def pass_silently(self, *silent: HostWithAgent, seconds: float | None = None) -> None:
        """Let time pass for the control plane in which all other hosts are heard and the leader looks."""
        for host in silent:
            host.wire.is_cut = True
        await until(lambda: not any(host.wire.in_flight for host in silent))  # nobody is heard later than now
        await self.duties()
        step = self.settings.silent_after_s / 4
        left = self.settings.silent_after_s if seconds is None else seconds
        while left > 0:
            self.clock.jump(step)
            left -= step
            await self._hear_others(self.clock.steady())
            await self.duties()

    async def _hear_others(self, since: int) -> None:
        for host in self.hosts.values():
            if not host.wire.is_cut:
                await until(partial(_is_heard, host.wire.replica.fleet.presence, host.id, since))
        if len(self.replicas) > 1:
            await self._told_again()

    async def _told_again(self) -> None:
        """Wait until other replicas have reported again which hosts they hear."""

        async def version() -> int:
            found = await self.database.read(read_hearsay)
            return max((row.version for row in found), default=0)

        before = await version()

        async def is_newer() -> bool:
            return await version() >= before + 2

        await until(is_newer)

    async def duties(self) -> None:
        await self.leader.duties.look()

    # -- VMs -------------------------------------------------------------------------------------------------------

    async def create(self, name: str = "", wanted: VmSpec | None = None) -> str:
        self._numbers += 1
        identity = f"vm{self._numbers:04d}"
        change = desired_state.create(identity, "default", name or identity, wanted or spec())
        await self.database.write(
            lambda connection: ledger.insert(connection, change, actor="key:1", now_ns=self.clock.wall())
        )
        return identity

    async def create_running(self, wanted: VmSpec | None = None) -> str:
        vm = await self.create(wanted=wanted)
        await self.until_vm(vm, is_running)
        return vm

    async def wish(self, vm: str, wish: Callable[..., VmChange], *arguments) -> Vm:
        def work(connection: Connection) -> StoredVm:
            stored = ledger.load(connection, vm)
            change = wish(stored.vm, *arguments)
            return ledger.write(connection, stored, change, actor="key:1", now_ns=self.clock.wall())

        return (await self.database.write(work)).vm

    async def vm(self, identity: str) -> Vm:
        return (await self.database.read(lambda connection: ledger.load(connection, identity))).vm

    async def until_vm(self, identity: str, is_so: Callable[[Vm], bool]) -> Vm:
        found: Vm | None = None
        try:
            async with asyncio.timeout(GIVE_UP_S):
                with self.leader.books.watch("vm", identity) as news:
                    while True:
                        found = await self.vm(identity)
                        if is_so(found):
                            return found
                        await news.wait(0.5)
        except TimeoutError:
            raise AssertionError(f"it never came true for {found}") from None

    def runs_on(self, vm: str) -> list[str]:
        return [host.name for host in self.hosts.values() if host.power(vm) in ("running", "paused")]

    async def everything(self) -> tuple:
        """Return all that a refused message must not change, once nothing else is under way."""
        await until(lambda: not any(host.wire.in_flight for host in self.hosts.values()))
        await until(self._has_decided)

        def work(connection: Connection) -> tuple:
            rows = [vms.find_many(connection, [f"vm{number:04d}" for number in range(1, self._numbers + 1)])]
            return log.head(connection), hosts.all_alive(connection), rows, placements.all_rows(connection)

        return await self.database.read(work)

    async def _has_decided(self) -> bool:
        """Say whether the leader has looked at every fact that there is."""
        entries = await self.database.read(lambda connection: log.read_after(connection, 0, 100_000))
        facts = [entry.seq for entry in entries if entry.kind == "fact"]
        steps = [msgspec.json.decode(entry.body, type=Step).upto for entry in entries if entry.kind == "step"]
        return max(facts, default=0) <= max(steps, default=0)

    # -- agreement -------------------------------------------------------------------------------------------------

    async def check_agreement(self) -> None:
        """Books, engine and agents count the same on every host."""

        async def is_same() -> bool:
            return await self._booked() == await self._engine_has() == self._agents_have()

        try:
            await until(is_same)
        except AssertionError:
            found = (await self._booked(), await self._engine_has(), self._agents_have())
            raise AssertionError(f"books, engine, agents: {found}") from None

    async def _booked(self) -> dict[str, Amounts]:
        use = await self.database.read(placements.use_by_host)
        named = {row.id: row.name for row in await self.database.read(hosts.all_alive)}
        found = {named[host]: Amounts(one.cpu_millis, one.memory_bytes, one.disk_bytes) for host, one in use.items()}
        return _without_nothing(found)

    async def _engine_has(self) -> dict[str, Amounts]:
        def work(engine: Engine) -> dict[str, Amounts]:
            found: dict[str, Amounts] = {}
            for record in engine.view.records.values():
                if record.state in PLACED_STATES:
                    asked = record.guest.spec.requests
                    one = Amounts(amount_of(asked, CPU), amount_of(asked, MEMORY), amount_of(asked, STORAGE))
                    found[record.host] = found.get(record.host, Amounts()).plus(one)
            return found

        return _without_nothing((await self.leader.books.ask(work))[0])

    def _agents_have(self) -> dict[str, Amounts]:
        return _without_nothing({name: host.used() for name, host in self.hosts.items()})


def _is_heard(presence: Presence, host: str, since: int) -> bool:
    return (presence.heard_at(host) or 0) >= since


def _without_nothing(found: dict[str, Amounts]) -> dict[str, Amounts]:
    return {name: one for name, one in found.items() if one != Amounts()}


def is_running(vm: Vm) -> bool:
    return vm.reported == "running" and vm.observed_generation == vm.generation and not vm.is_unknown


def is_stopped(vm: Vm) -> bool:
    return vm.reported == "stopped" and vm.observed_generation == vm.generation


@asynccontextmanager
async def run_control_plane(
    url: str, *, replicas: int = 1, settings: ControlSettings = SETTINGS, **more
) -> AsyncIterator[ControlPlane]:
    """Give a control plane with a project and without hosts."""
    times = more.pop("times", times_for(settings))
    made = ControlPlane(url, settings, times, **more)
    try:
        for _ in range(replicas):
            await made.add_replica()
        await made.database.write(lambda connection: projects.insert(connection, ProjectRow(name="default")))
        yield made
    finally:
        for host in made.hosts.values():
            await host.stop()
        for replica in made.replicas:
            await replica.stop()


def _random(count: int) -> bytes:
    return uuid.uuid4().bytes * (count // 16) + uuid.uuid4().bytes[: count % 16]
