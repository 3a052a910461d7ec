"""What is reported about a preempted VM: that it was preempted, and for which VM if its owner may know that."""

from __future__ import annotations

import pytest

from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_vm_status_texts import explained, made


async def crowded(service: InProcessService, project: str) -> str:
    """Return a VM that had to make way on the only host for one of a project."""
    await service.add_hosts("a")
    if project != "default":
        await service.ask("POST", "/v1/projects", json={"name": project})
    low = await made(service, "low", spec={"cpu": "3", "disks": [{"size": "1Gi"}]})
    await made(service, "high", project=project, spec={"cpu": "3", "priority": 10})
    for _ in range(3):
        await service.settle()
    return low


@pytest.mark.parametrize(
    ("project", "why"),
    [
        ("default", "it makes room for high, a VM of higher priority"),
        ("elsewhere", "it makes room for a VM of higher priority"),
    ],
)
async def test_a_vm_that_made_way_says_so_and_names_only_who_is_of_its_project(project: str, why: str) -> None:
    async with open_service() as service:
        low = await crowded(service, project)
        told = await explained(service, low)
        assert (told["state"], told["made_way"]) == ("pending", why)
        assert told["now"] == f"waits for room on a; it was stopped because {why}"
        events = (await service.ask("GET", f"/v1/vms/{low}/events", params={"limit": 500})).json()["items"]
        assert [one["text"] for one in events if one["kind"] == "vm.evicted"] == [
            why.replace("it makes", "stopped to make")
        ]


async def test_vm_with_room_or_stopped_by_owner_is_not_shown_as_preempted() -> None:
    async with open_service() as service:
        low = await crowded(service, "default")
        await service.ask("POST", f"/v1/vms/{low}/stop")
        await service.settle()
        assert (await explained(service, low))["made_way"] == ""
        [high] = [one for one in (await service.ask("GET", "/v1/vms")).json()["items"] if one["name"] == "high"]
        await service.ask("POST", f"/v1/vms/{low}/start")
        await service.ask("DELETE", f"/v1/vms/{high['id']}")
        await service.settle()
        told = await explained(service, low)
        assert (told["state"], told["now"], told["made_way"]) == ("running", "runs on a", "")


async def test_a_vm_that_made_way_and_runs_again_is_reported_as_one_that_runs() -> None:
    async with open_service() as service:
        low = await crowded(service, "default")
        await service.add_hosts("b")
        [high] = [one for one in (await service.ask("GET", "/v1/vms")).json()["items"] if one["name"] == "high"]
        await service.ask("DELETE", f"/v1/vms/{high['id']}")
        await service.settle()
        told = await explained(service, low)
        assert (told["now"], told["made_way"]) == ("runs on a", "")
