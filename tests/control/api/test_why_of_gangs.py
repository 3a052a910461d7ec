"""What a gang says of members that are not placed: how many are there, how many are stopped, or what was decided."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.control.api.house import House, open_house
from tests.control.api.test_gathering_gangs import joined, whys


async def gang(house: House) -> dict[str, Any]:
    """Return the gang crew: alone it is the same as in the list."""
    one = (await house.ask("GET", "/v1/gangs/default/crew")).json()
    assert (await house.ask("GET", "/v1/gangs")).json()["items"] == [one]
    return dict(one)


async def stop(house: House, *vms: str) -> None:
    for vm in vms:
        assert (await house.ask("POST", f"/v1/vms/{vm}/stop")).is_success
    await house.settle()


def test_a_gang_says_how_many_members_it_lacks_until_all_are_placed() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
            assert (await gang(house))["why"] == ""
            for name in ("one", "two"):
                await joined(house, name)
            assert (await gang(house))["why"] == "2/3 members are there, it waits for the rest"
            await joined(house, "three")
            found = await gang(house)
            assert (found["placed"], found["stopped"], found["why"], found["reason"]) == (3, 0, "", "")

    asyncio.run(story())


def test_members_that_are_stopped_are_counted_by_the_gang_and_by_those_that_wait() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
            first, *others = [await joined(house, name) for name in ("one", "two", "three")]
            await stop(house, *others)
            found = await gang(house)
            assert found["stopped"] == 2
            assert found["why"] == "1/3 members are there, it waits for the rest; 2 are stopped"
            lacking = "1/3 members of gang default/crew are there, it waits for the rest; 2 are stopped"
            assert await whys(house, first) == {lacking}
            await stop(house, first)
            assert (await gang(house))["why"] == "3 are stopped"

    asyncio.run(story())


def test_a_gang_that_is_complete_and_finds_no_room_says_what_was_decided() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=2)
            await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
            first, *_ = [await joined(house, name) for name in ("one", "two", "three")]
            assert {(await gang(house))["why"]} == await whys(house, first)
            assert (await gang(house))["reason"] == "waiting"
            assert "host" in (await gang(house))["why"]

    asyncio.run(story())
