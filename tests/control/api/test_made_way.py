"""What is told of a VM that was stopped for another: that it was, and for whom where its owner may know that."""

from __future__ import annotations

import asyncio

import pytest

from tests.control.api.house import House, open_house
from tests.control.api.test_how_vms_are import explained, made


async def crowded(house: House, project: str) -> str:
    """Return a VM that had to make way on the only host for one of a project."""
    await house.add_hosts("a")
    if project != "default":
        await house.ask("POST", "/v1/projects", json={"name": project})
    low = await made(house, "low", spec={"cpu": "3", "disks": [{"size": "1Gi"}]})
    await made(house, "high", project=project, spec={"cpu": "3", "priority": 10})
    for _ in range(3):
        await house.settle()
    return low


@pytest.mark.parametrize(
    ("project", "why"),
    [
        ("default", "it makes room for high, a VM of higher priority"),
        ("elsewhere", "it makes room for a VM of higher priority"),
    ],
)
def test_a_vm_that_made_way_says_so_and_names_only_who_is_of_its_project(project: str, why: str) -> None:
    async def scenario() -> None:
        async with open_house() as house:
            low = await crowded(house, project)
            told = await explained(house, low)
            assert (told["state"], told["made_way"]) == ("pending", why)
            assert told["now"] == f"waits for room on a; it was stopped because {why}"
            events = (await house.ask("GET", f"/v1/vms/{low}/events", params={"limit": 500})).json()["items"]
            assert [one["text"] for one in events if one["kind"] == "vm.evicted"] == [why]

    asyncio.run(scenario())


def test_a_vm_that_has_room_again_or_is_stopped_by_its_owner_is_not_said_to_have_made_way() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            low = await crowded(house, "default")
            await house.ask("POST", f"/v1/vms/{low}/stop")
            await house.settle()
            assert (await explained(house, low))["made_way"] == ""
            [high] = [one for one in (await house.ask("GET", "/v1/vms")).json()["items"] if one["name"] == "high"]
            await house.ask("POST", f"/v1/vms/{low}/start")
            await house.ask("DELETE", f"/v1/vms/{high['id']}")
            await house.settle()
            told = await explained(house, low)
            assert (told["state"], told["now"], told["made_way"]) == ("running", "runs on a", "")

    asyncio.run(scenario())


def test_a_vm_that_made_way_and_runs_again_is_told_of_as_one_that_runs() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            low = await crowded(house, "default")
            await house.add_hosts("b")
            [high] = [one for one in (await house.ask("GET", "/v1/vms")).json()["items"] if one["name"] == "high"]
            await house.ask("DELETE", f"/v1/vms/{high['id']}")
            await house.settle()
            told = await explained(house, low)
            assert (told["now"], told["made_way"]) == ("runs on a", "")

    asyncio.run(scenario())
