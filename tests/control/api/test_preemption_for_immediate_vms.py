"""A VM for which others make way: it waits for them, also where it was to be placed at once or not at all."""

from __future__ import annotations

from typing import Any

from tests.control.api.service_in_process import InProcessService, open_service

HIGH = {"cpu": "4", "priority": 10}


async def full(service: InProcessService) -> str:
    """Fill a host with a VM that may be stopped for others; return that VM."""
    await service.add_hosts("a", cpu=4)
    low = str((await service.create("low", spec={"cpu": "4"})).json()["vm"]["id"])
    await service.settle()
    return low


async def one(service: InProcessService, vm: str) -> dict[str, Any]:
    found: dict[str, Any] = (await service.ask("GET", f"/v1/vms/{vm}")).json()
    return found


async def test_vm_placed_at_once_is_not_rejected_after_preemption() -> None:
    async with open_service() as service:
        low = await full(service)
        answer = await service.create("high", spec=HIGH, on_unplaceable="fail")
        assert answer.status_code == 202, answer.text
        high = answer.json()["vm"]["id"]
        assert answer.json()["vm"]["why"] == "room is made for it on a"
        await service.settle()
        assert (await one(service, high))["host"] == "a"
        assert ((await one(service, low))["state"], (await one(service, low))["host"]) == ("pending", None)


async def test_one_for_which_room_was_to_be_made_in_vain_fails_with_the_reason() -> None:
    async with open_service() as service:
        await full(service)
        answer = await service.create("high", spec=HIGH, on_unplaceable="fail")
        assert answer.json()["vm"]["why"] == "room is made for it on a"
        await service.set_state("a", "offline")
        await service.caught_up()
        assert (await service.ask("GET", f"/v1/vms/{answer.json()['vm']['id']}")).status_code == 404
        operation = (await service.ask("GET", f"/v1/operations/{answer.json()['operation']['id']}")).json()
        assert operation["state"] == "failed"
        assert operation["error"] == "not placed: 0 of 1 host: 1 not taking VMs"


async def test_one_for_which_nobody_makes_way_is_refused_and_nobody_is_stopped() -> None:
    async with open_service() as service:
        low = await full(service)
        answer = await service.create("equal", spec={"cpu": "4"}, on_unplaceable="fail")
        assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_resources")
        await service.settle()
        assert ((await one(service, low))["state"], (await one(service, low))["host"]) == ("running", "a")
