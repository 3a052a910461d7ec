"""A stopped VM without anything on its host is moved as it is, also between hosts that cannot move VMs that run."""

from __future__ import annotations

from typing import Any

from hostler.agent.messages import Capabilities
from tests.control.api.service_in_process import InProcessService, open_service

CANNOT = Capabilities(pause=True, disks=True)


async def one_on_a(service: InProcessService) -> str:
    """Make a VM that runs on host a, where b is another; neither can move VMs that run."""
    await service.add_hosts("a", cpu=4)
    vm = str((await service.create("web")).json()["vm"]["id"])
    await service.settle()
    await service.add_hosts("b", cpu=4)
    for name in ("a", "b"):
        await service.describe(name, capabilities=CANNOT)
    return vm


async def do(service: InProcessService, vm: str, verb: str, **asked: Any) -> str:
    """Ask for a change, let it happen, and return how its operation ended."""
    answer = await service.ask("POST", f"/v1/vms/{vm}/{verb}", json=asked)
    assert answer.status_code == 202, answer.text
    await service.settle()
    operation = (await service.ask("GET", f"/v1/operations/{answer.json()['operation']['id']}")).json()
    return f"{operation['state']} {operation['error']}".strip()


async def shown(service: InProcessService, vm: str) -> tuple[str, str]:
    found = (await service.ask("GET", f"/v1/vms/{vm}")).json()
    return found["state"], found["host"]


async def test_a_vm_whose_host_cannot_send_it_gets_elsewhere_as_the_hint_says() -> None:
    async with open_service() as service:
        vm = await one_on_a(service)
        refused = await service.ask("POST", f"/v1/vms/{vm}/migrate", json={"host": "b"})
        assert refused.json()["hint"] == "stop it, migrate it while it is stopped, then start it"
        assert await do(service, vm, "stop") == "done"
        assert await do(service, vm, "migrate", host="b") == "done"
        assert await shown(service, vm) == ("stopped", "b")
        assert await do(service, vm, "start") == "done"
        assert await shown(service, vm) == ("running", "b")


async def test_one_that_waits_for_room_on_its_host_gets_elsewhere_the_same_way() -> None:
    async with open_service() as service:
        vm = await one_on_a(service)
        assert await do(service, vm, "stop") == "done"
        await service.create("full", spec={"cpu": "4", "host_name": "a"})
        await service.settle()
        await service.ask("POST", f"/v1/vms/{vm}/start")
        await service.settle()
        assert await shown(service, vm) == ("pending", "a")
        refused = await service.ask("POST", f"/v1/vms/{vm}/migrate")
        assert refused.json()["hint"] == "stop it, migrate it while it is stopped, then start it"
        assert await do(service, vm, "stop") == "done"
        assert await do(service, vm, "migrate") == "done"
        assert await do(service, vm, "start") == "done"
        assert await shown(service, vm) == ("running", "b")


async def test_cold_move_without_room_fails_with_reason_and_vm_stays() -> None:
    async with open_service() as service:
        vm = await one_on_a(service)
        assert await do(service, vm, "stop") == "done"
        await service.create("full", spec={"cpu": "4", "host_name": "b"})
        await service.settle()
        told = await do(service, vm, "migrate")
        assert told.startswith("failed not moved: 0 of 2 hosts: ")
        assert "1 it is to leave a" in told
        assert await shown(service, vm) == ("stopped", "a")
