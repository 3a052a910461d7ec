"""A service and two hosts as people run them, and a VM that really boots: from its creation to its end.

``hostler serve`` and two ``hostler agent --driver qemu`` are processes of their own; all that is asked, is asked over
REST. The guest says on its serial console how it fares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agent.drivers.qemu_setup import QemuSetup
from tests.control.real.agents import QemuAgent, processes_of, ticks
from tests.control.storms.service import ServiceProcess
from tests.wait import until

pytestmark = pytest.mark.early

SILENT = ("--heartbeat", "1", "--silent-after", "120")  # nobody counts as silent only because the machine is busy


class ServiceWithRealVms:
    """A service, two hosts, and a client."""

    def __init__(self, setup: QemuSetup, service: ServiceProcess, client: httpx.AsyncClient) -> None:
        self.setup = setup
        self.service = service
        self.client = client
        self.hosts = {name: QemuAgent(setup, name, service) for name in ("one", "two")}

    async def create(self, name: str) -> str:
        """Ask for a VM that boots the test guest; return its id."""
        order = self.setup.order(name)
        spec = {
            "cpu": "1",
            "memory": "96Mi",
            "kernel": order.kernel,
            "initrd": order.initrd,
            "kernel_arguments": order.kernel_arguments,
            "network": {"kind": "none"},
        }
        answer = await self.client.post("/v1/vms", json={"name": name, "spec": spec})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["vm"]["id"])

    async def ask(self, vm: str, verb: str, **body: Any) -> None:
        answer = await self.client.post(f"/v1/vms/{vm}/{verb}", json=body)
        assert answer.status_code == 202, answer.text

    async def vm(self, vm: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.get(f"/v1/vms/{vm}")).json()
        return found

    async def becomes(self, vm: str, state: str, host: str = "") -> str:
        """Wait until a VM is as wanted and its host has said so; return that host's name."""
        found: dict[str, Any] = {}

        async def is_so() -> bool:
            nonlocal found
            found = await self.vm(vm)
            assert found["state"] != "failed", found
            is_settled = found["observed_generation"] == found["generation"]
            return is_settled and found["state"] == state and host in ("", found["host"])

        try:
            await until(is_so, f"it is {state}")
        except AssertionError as error:
            logs = {name: one.log.read_text()[-2000:] for name, one in self.hosts.items()}
            raise AssertionError(f"{error}: {found} {logs}") from None
        return str(found["host"])

    async def left(self, vm: str, host: str) -> None:
        """Wait until nothing of a VM is at a host."""

        async def is_gone() -> bool:
            return not self.hosts[host].qemu_pid(vm) and not self.hosts[host].has(vm)

        await until(is_gone, f"{host} has nothing of it")

    def boots(self, vm: str, host: str) -> int:
        return self.setup.console(vm, host).count("guest: up with")


async def boot_and_stop(scenario: ServiceWithRealVms, vm: str) -> str:
    home = await scenario.becomes(vm, "running")
    await scenario.setup.said("guest: tick 1", vm, home)
    assert scenario.hosts[home].qemu_pid(vm)
    await scenario.ask(vm, "stop")
    await scenario.becomes(vm, "stopped", home)
    assert "guest: power button" in scenario.setup.console(vm, home), "it was asked to end"
    assert not scenario.hosts[home].qemu_pid(vm)
    assert scenario.hosts[home].has(vm)
    await scenario.ask(vm, "start")
    await scenario.becomes(vm, "running", home)

    async def is_up_again() -> bool:
        return scenario.boots(vm, home) == 2

    await until(is_up_again, "it boots again")
    return home


async def kill_the_agent(scenario: ServiceWithRealVms, vm: str, home: str) -> None:
    """Its VM runs on while nobody is there, and obeys the next agent: the same process of QEMU."""
    before = scenario.hosts[home].qemu_pid(vm)
    scenario.hosts[home].kill()
    count = len(ticks(scenario.setup.console(vm, home)))

    async def goes_on() -> bool:
        return len(ticks(scenario.setup.console(vm, home))) > count + 1

    await until(goes_on, "it counts on without an agent")
    scenario.hosts[home].start()
    await scenario.ask(vm, "pause")
    await scenario.becomes(vm, "paused", home)
    await scenario.ask(vm, "resume")
    await scenario.becomes(vm, "running", home)
    assert scenario.hosts[home].qemu_pid(vm) == before, "the next agent adopts what runs"
    assert scenario.boots(vm, home) == 2
    unknown = (await scenario.client.get(f"/v1/hosts/{home}")).json()["unknown_vms"]
    assert not [one for one in unknown if one.startswith(vm)]


async def kill_the_service(scenario: ServiceWithRealVms, vm: str, home: str) -> None:
    """Nothing that runs notices."""
    before = scenario.hosts[home].qemu_pid(vm)
    scenario.service.kill()
    await scenario.service.start()
    await scenario.becomes(vm, "running", home)
    assert scenario.hosts[home].qemu_pid(vm) == before


async def migrate(scenario: ServiceWithRealVms, vm: str, home: str) -> str:
    [target] = set(scenario.hosts) - {home}
    await scenario.ask(vm, "migrate", host=target)
    await scenario.becomes(vm, "running", target)
    last = ticks(scenario.setup.console(vm, home))
    await scenario.left(vm, home)

    async def counts() -> bool:
        return bool(ticks(scenario.setup.console(vm, target)))

    await until(counts, "it counts on there")
    first = ticks(scenario.setup.console(vm, target))[0]
    # A line that it was saying when it moved is whole on neither console.
    assert not last or 0 <= first - last[-1] <= 2, "it went on from where it was"
    assert first > 1
    assert scenario.boots(vm, target) == 0, "it did not boot"
    return target


async def delete(scenario: ServiceWithRealVms, vm: str, home: str) -> None:
    assert (await scenario.client.delete(f"/v1/vms/{vm}")).status_code == 202

    async def is_gone() -> bool:
        return (await scenario.client.get(f"/v1/vms/{vm}")).status_code == 404

    await until(is_gone, "it is gone")
    await scenario.left(vm, home)
    operations = (await scenario.client.get("/v1/operations", params={"limit": 100})).json()["items"]
    assert {one["state"] for one in operations if one["subject"] == vm} == {"done"}


async def live(scenario: ServiceWithRealVms) -> None:
    for agent in scenario.hosts.values():
        await agent.join(scenario.client)
    vm = await scenario.create("web")
    home = await boot_and_stop(scenario, vm)
    await kill_the_agent(scenario, vm, home)
    await kill_the_service(scenario, vm, home)
    target = await migrate(scenario, vm, home)
    await delete(scenario, vm, target)
    for agent in scenario.hosts.values():
        agent.stop()
    left = processes_of(scenario.setup.folder)
    assert all("--watchdog only" in words for words in left.values()), left


async def play(folder: Path, url: str, story: Callable[[ServiceWithRealVms], Awaitable[None]]) -> None:
    setup = QemuSetup(folder)
    service = ServiceProcess(folder, url, options=SILENT)
    agents: list[QemuAgent] = []
    try:
        await service.start()
        headers = {"Authorization": f"Bearer {service.key}"}
        async with httpx.AsyncClient(base_url=service.address, headers=headers, timeout=120) as client:
            scenario = ServiceWithRealVms(setup, service, client)
            agents += scenario.hosts.values()
            await story(scenario)
    finally:
        for agent in agents:
            await agent.clean()
        service.kill()
        await setup.clean()
    assert processes_of(setup.folder) == {}


def test_a_vm_boots_stops_outlives_agent_and_service_moves_and_goes(tmp_path: Path, sqlite_url: str):
    asyncio.run(play(tmp_path, sqlite_url, live))
