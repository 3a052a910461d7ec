"""Two whole agents with real VMs on one machine: what a VM lives through, from its first order to its last."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.link import Link
from hostler.agent.manifest import FileManifest
from hostler.agent.messages import HostSize, Migration
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from tests.agent.drivers.qemu_setup import QemuSetup, in_qemu_setup
from tests.agent.fake_control_plane import TOKEN, FakeControlPlane
from tests.async_tests import run_with
from tests.recorded_log import recorded_log
from tests.wait import GIVE_UP_S, until

ROOM = HostSize(cpu_millis=64_000, memory_bytes=2**40)  # whatever else runs on this machine


class QemuHost:
    """One host: its folders outlive its agents."""

    def __init__(self, setup: QemuSetup, name: str) -> None:
        self.setup, self.name = setup, name
        self.control_plane = FakeControlPlane()
        self.control_plane.limit = ROOM
        self.credentials = MemoryCredentials()
        self.agents = 0
        self.lines: list[str] = []

    @asynccontextmanager
    async def agent(self, *, is_killed: bool = False):
        self.agents += 1
        stopping = asyncio.Event()
        agent = Agent(
            Link(self.control_plane, self.credentials),
            self.setup.driver(self.name),
            FileManifest(self.setup.folder / f"{self.name}-records"),
            AgentSettings(name=self.name, look_s=0.5, grace_s=60.0),
            boot="boot-1",
            run_id=f"{self.name}-{self.agents}",
            token=TOKEN,
            log=recorded_log(self.lines),
        )
        task = asyncio.get_running_loop().create_task(agent.run(stopping))
        try:
            yield
        finally:
            if is_killed:
                task.cancel()
            stopping.set()
            await asyncio.gather(task, return_exceptions=is_killed)

    async def reports(self, vm: str, state: str, generation: int = 0) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_S):
                while not self._says(vm, state, generation):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(
                f"{vm} is never {state} on {self.name}: {self.control_plane.vms} {self.lines}"
            ) from None

    def _says(self, vm: str, state: str, generation: int) -> bool:
        report = self.control_plane.vms.get(vm)
        if report is None:
            return state == "absent"
        return report.state == state and report.generation >= generation

    def order(self, generation: int, **changes: object) -> None:
        self.control_plane.order(self.setup.order("a", generation, **changes))

    def process(self) -> int:
        return msgspec.json.decode((self.setup.folder / self.name / "vms" / "a" / "process.json").read_bytes())["pid"]


def ticks(console: str) -> list[int]:
    """Return what a guest has counted since it booted, as far as its lines have come to their ends."""
    lines = console.rpartition("guest: up")[2].split("\n")[:-1]
    return [int(line.split()[-1]) for line in lines if line.startswith("guest: tick ")]


@run_with(in_qemu_setup)
async def test_a_vm_lives_through_restarts_of_agents_and_a_migration(setup, /):
    one, two = QemuHost(setup, "one"), QemuHost(setup, "two")
    async with one.agent():
        one.order(1)
        await one.reports("a", "running", 1)
        await setup.said("guest: tick 1", "a")
        one.order(2, power="stopped")
        await one.reports("a", "stopped", 2)
        assert "guest: power button" in setup.console("a"), "it was asked to end"
        one.order(3)
        await one.reports("a", "running", 3)
    before = one.process()
    async with one.agent():
        await one.reports("a", "running", 3)
        assert one.process() == before, "the next agent adopts what runs"
        assert f"a@{before}" not in one.control_plane.unknown
        async with two.agent():
            await migrate(setup, one, two)
            one.order(5, power="absent")
            two.order(5)
            await one.reports("a", "absent")
            await two.reports("a", "running", 5)
            assert not (setup.folder / "one" / "vms" / "a").exists()
            two.order(6, power="absent")
            await two.reports("a", "absent")


async def migrate(setup: QemuSetup, one: QemuHost, two: QemuHost) -> None:
    await until(
        lambda: setup.console("a").count("guest: up") >= 2 and len(ticks(setup.console("a"))) >= 2
    )  # booted twice
    two.order(4, migration=Migration(is_source=False))
    await two.reports("a", "landing")
    landing = two.control_plane.vms["a"]
    one.order(4, migration=Migration(is_source=True, address=landing.landing_address, secret=landing.landing_secret))
    await one.reports("a", "left", 4)
    await two.reports("a", "running", 4)
    before = setup.console("a", "one")  # which may end in the middle of a line
    await until(lambda: len(ticks(before + setup.console("a", "two"))) >= len(ticks(before)) + 2)
    whole = ticks(before + setup.console("a", "two"))
    assert whole == list(range(1, len(whole) + 1)), "it went on from where it was"
    assert "guest: up" not in setup.console("a", "two"), "it did not boot"


@run_with(in_qemu_setup)
async def test_agent_after_one_killed_during_boot_finds_the_vm(setup, /):
    host = QemuHost(setup, "one")
    async with host.agent(is_killed=True):
        host.order(1)
        await until((setup.folder / "one" / "vms" / "a" / "vm.json").exists)
    async with host.agent():
        await host.reports("a", "running", 1)
        assert f"a@{host.process()}" not in host.control_plane.unknown
        host.order(2, power="absent")
        await host.reports("a", "absent")
