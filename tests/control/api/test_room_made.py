"""A VM for which others make way: it waits for them, also where it was to be placed at once or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.control.api.house import House, open_house

HIGH = {"cpu": "4", "priority": 10}


async def full(house: House) -> str:
    """Fill a host with a VM that may be stopped for others; return that VM."""
    await house.add_hosts("a", cpu=4)
    low = str((await house.create("low", spec={"cpu": "4"})).json()["vm"]["id"])
    await house.settle()
    return low


async def one(house: House, vm: str) -> dict[str, Any]:
    found: dict[str, Any] = (await house.ask("GET", f"/v1/vms/{vm}")).json()
    return found


def test_one_that_must_be_placed_at_once_is_not_refused_after_others_were_stopped_for_it() -> None:
    async def story() -> None:
        async with open_house() as house:
            low = await full(house)
            answer = await house.create("high", spec=HIGH, on_unplaceable="fail")
            assert answer.status_code == 202, answer.text
            high = answer.json()["vm"]["id"]
            assert answer.json()["vm"]["why"] == "room is made for it on a"
            await house.settle()
            assert (await one(house, high))["host"] == "a"
            assert ((await one(house, low))["state"], (await one(house, low))["host"]) == ("pending", None)

    asyncio.run(story())


def test_one_for_which_room_was_to_be_made_in_vain_fails_with_the_reason() -> None:
    async def story() -> None:
        async with open_house() as house:
            await full(house)
            answer = await house.create("high", spec=HIGH, on_unplaceable="fail")
            assert answer.json()["vm"]["why"] == "room is made for it on a"
            await house.set_state("a", "offline")
            await house.caught_up()
            assert (await house.ask("GET", f"/v1/vms/{answer.json()['vm']['id']}")).status_code == 404
            operation = (await house.ask("GET", f"/v1/operations/{answer.json()['operation']['id']}")).json()
            assert operation["state"] == "failed"
            assert operation["error"] == "not placed: 0 of 1 host: 1 not taking VMs"

    asyncio.run(story())


def test_one_for_which_nobody_makes_way_is_refused_and_nobody_is_stopped() -> None:
    async def story() -> None:
        async with open_house() as house:
            low = await full(house)
            answer = await house.create("equal", spec={"cpu": "4"}, on_unplaceable="fail")
            assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_resources")
            await house.settle()
            assert ((await one(house, low))["state"], (await one(house, low))["host"]) == ("running", "a")

    asyncio.run(story())
