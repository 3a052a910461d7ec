"""Two whole agents with real VMs on one machine: what a VM lives through, from its first order to its last."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec

from hostler.agent.credentials import MemoryCredentials
from hostler.agent.link import Link
from hostler.agent.manifest import FileManifest
from hostler.agent.messages import HostSize, Migration
from hostler.agent.process import Agent
from hostler.agent.settings import Settings
from tests.agent.drivers.qemu_lab import QemuLab, in_a_lab
from tests.agent.plane import TOKEN, Plane
from tests.wait import GIVE_UP_S, until

ROOM = HostSize(cpu_millis=64_000, memory_bytes=2**40)  # whatever else runs on this machine


class Host:
    """One host: its folders outlive its agents."""

    def __init__(self, lab: QemuLab, name: str) -> None:
        self.lab, self.name = lab, name
        self.plane = Plane()
        self.plane.limit = ROOM
        self.credentials = MemoryCredentials()
        self.agents = 0
        self.lines: list[str] = []

    @asynccontextmanager
    async def agent(self, *, is_killed: bool = False):
        self.agents += 1
        stopping = asyncio.Event()
        agent = Agent(
            Link(self.plane, self.credentials),
            self.lab.driver(self.name),
            FileManifest(self.lab.folder / f"{self.name}-records"),
            Settings(name=self.name, look_s=0.5, grace_s=60.0),
            boot="boot-1",
            run_id=f"{self.name}-{self.agents}",
            token=TOKEN,
            tell=self.lines.append,
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
            raise AssertionError(f"{vm} is never {state} on {self.name}: {self.plane.vms} {self.lines}") from None

    def _says(self, vm: str, state: str, generation: int) -> bool:
        report = self.plane.vms.get(vm)
        if report is None:
            return state == "absent"
        return report.state == state and report.generation >= generation

    def order(self, generation: int, **changes: object) -> None:
        self.plane.order(self.lab.order("a", generation, **changes))

    def process(self) -> int:
        return msgspec.json.decode((self.lab.folder / self.name / "vms" / "a" / "process.json").read_bytes())["pid"]


def ticks(console: str) -> list[int]:
    """Return what a guest has counted since it booted, as far as its lines have come to their ends."""
    lines = console.rpartition("guest: up")[2].split("\n")[:-1]
    return [int(line.split()[-1]) for line in lines if line.startswith("guest: tick ")]


def test_a_vm_lives_through_restarts_of_agents_and_a_migration():
    async def scenario(lab):
        one, two = Host(lab, "one"), Host(lab, "two")
        async with one.agent():
            one.order(1)
            await one.reports("a", "running", 1)
            await lab.said("guest: tick 1", "a")
            one.order(2, power="stopped")
            await one.reports("a", "stopped", 2)
            assert "guest: power button" in lab.console("a"), "it was asked to end"
            one.order(3)
            await one.reports("a", "running", 3)
        before = one.process()
        async with one.agent():
            await one.reports("a", "running", 3)
            assert one.process() == before, "the next agent adopts what runs"
            assert f"a@{before}" not in one.plane.unknown
            async with two.agent():
                await migrate(lab, one, two)
                one.order(5, power="absent")
                two.order(5)
                await one.reports("a", "absent")
                await two.reports("a", "running", 5)
                assert not (lab.folder / "one" / "vms" / "a").exists()
                two.order(6, power="absent")
                await two.reports("a", "absent")

    in_a_lab(scenario)


async def migrate(lab: QemuLab, one: Host, two: Host) -> None:
    await until(lambda: lab.console("a").count("guest: up") >= 2 and len(ticks(lab.console("a"))) >= 2)  # booted twice
    two.order(4, migration=Migration(is_source=False))
    await two.reports("a", "landing")
    landing = two.plane.vms["a"]
    one.order(4, migration=Migration(is_source=True, address=landing.landing_address, secret=landing.landing_secret))
    await one.reports("a", "left", 4)
    await two.reports("a", "running", 4)
    before = lab.console("a", "one")  # which may end in the middle of a line
    await until(lambda: len(ticks(before + lab.console("a", "two"))) >= len(ticks(before)) + 2)
    whole = ticks(before + lab.console("a", "two"))
    assert whole == list(range(1, len(whole) + 1)), "it went on from where it was"
    assert "guest: up" not in lab.console("a", "two"), "it did not boot"


def test_an_agent_that_is_killed_while_it_boots_a_vm_is_followed_by_one_that_finds_it():
    async def scenario(lab):
        host = Host(lab, "one")
        async with host.agent(is_killed=True):
            host.order(1)
            await until((lab.folder / "one" / "vms" / "a" / "vm.json").exists)
        async with host.agent():
            await host.reports("a", "running", 1)
            assert f"a@{host.process()}" not in host.plane.unknown
            host.order(2, power="absent")
            await host.reports("a", "absent")

    in_a_lab(scenario)
