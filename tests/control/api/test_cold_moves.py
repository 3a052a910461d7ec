"""A stopped VM without anything on its host is moved as it is, also between hosts that cannot move VMs that run."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.agent.messages import Capabilities
from tests.control.api.house import House, open_house

CANNOT = Capabilities(pause=True, disks=True)


async def one_on_a(house: House) -> str:
    """Make a VM that runs on host a, where b is another; neither can move VMs that run."""
    await house.add_hosts("a", cpu=4)
    vm = str((await house.create("web")).json()["vm"]["id"])
    await house.settle()
    await house.add_hosts("b", cpu=4)
    for name in ("a", "b"):
        await house.describe(name, capabilities=CANNOT)
    return vm


async def do(house: House, vm: str, verb: str, **asked: Any) -> str:
    """Ask for a change, let it happen, and return how its operation ended."""
    answer = await house.ask("POST", f"/v1/vms/{vm}/{verb}", json=asked)
    assert answer.status_code == 202, answer.text
    await house.settle()
    operation = (await house.ask("GET", f"/v1/operations/{answer.json()['operation']['id']}")).json()
    return f"{operation['state']} {operation['error']}".strip()


async def shown(house: House, vm: str) -> tuple[str, str]:
    found = (await house.ask("GET", f"/v1/vms/{vm}")).json()
    return found["state"], found["host"]


def test_a_vm_whose_host_cannot_send_it_gets_elsewhere_as_the_hint_says() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await one_on_a(house)
            refused = await house.ask("POST", f"/v1/vms/{vm}/migrate", json={"host": "b"})
            assert refused.json()["hint"] == "stop it, migrate it while it is stopped, then start it"
            assert await do(house, vm, "stop") == "done"
            assert await do(house, vm, "migrate", host="b") == "done"
            assert await shown(house, vm) == ("stopped", "b")
            assert await do(house, vm, "start") == "done"
            assert await shown(house, vm) == ("running", "b")

    asyncio.run(story())


def test_one_that_waits_for_room_on_its_host_gets_elsewhere_the_same_way() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await one_on_a(house)
            assert await do(house, vm, "stop") == "done"
            await house.create("full", spec={"cpu": "4", "host_name": "a"})
            await house.settle()
            await house.ask("POST", f"/v1/vms/{vm}/start")
            await house.settle()
            assert await shown(house, vm) == ("pending", "a")
            refused = await house.ask("POST", f"/v1/vms/{vm}/migrate")
            assert refused.json()["hint"] == "stop it, migrate it while it is stopped, then start it"
            assert await do(house, vm, "stop") == "done"
            assert await do(house, vm, "migrate") == "done"
            assert await do(house, vm, "start") == "done"
            assert await shown(house, vm) == ("running", "b")

    asyncio.run(story())


def test_one_that_finds_no_room_elsewhere_stays_and_the_move_fails_with_the_reason() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await one_on_a(house)
            assert await do(house, vm, "stop") == "done"
            await house.create("full", spec={"cpu": "4", "host_name": "b"})
            await house.settle()
            told = await do(house, vm, "migrate")
            assert told.startswith("failed not moved: 0 of 2 hosts: ")
            assert "1 it is to leave a" in told
            assert await shown(house, vm) == ("stopped", "a")

    asyncio.run(story())
