"""A VM whose gang is not complete: everybody who shows it says what is waited for, and nobody once it is there."""

from __future__ import annotations

import asyncio

import httpx

from hostler.web.pages import mount
from tests.control.api.house import House, open_house

LACKING = "2/3 members of gang default/crew are there, it waits for the rest"


async def whys(house: House, vm: str) -> set[str]:
    """Return why a VM waits, as each route says it."""
    one = (await house.ask("GET", f"/v1/vms/{vm}")).json()
    listed = (await house.ask("GET", "/v1/vms")).json()["items"]
    queued = (await house.ask("GET", "/v1/queue")).json()["items"]
    placed = next(found for found in one["conditions"] if found["type"] == "placed")
    return {
        one["why"],
        placed["message"],
        *(found["why"] for found in listed if found["id"] == vm),
        *(found["why"] for found in queued if found["vm"] == vm),
    }


async def joined(house: House, name: str) -> str:
    vm = str((await house.create(name, spec={"gang": "crew"})).json()["vm"]["id"])
    await house.settle()
    return vm


def test_it_says_how_many_members_are_there_until_all_are() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
            first = await joined(house, "one")
            assert await whys(house, first) == {LACKING.replace("2/3", "1/3")}
            await joined(house, "two")
            assert await whys(house, first) == {LACKING}
            await joined(house, "three")
            assert await whys(house, first) == {""}

    asyncio.run(story())


def test_it_says_that_nobody_has_made_its_gang() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await joined(house, "one")
            assert await whys(house, vm) == {"nobody has made gang default/crew yet"}

    asyncio.run(story())


def test_pages_say_the_same() -> None:
    async def story() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
            vm, _ = [await joined(house, name) for name in ("one", "two")]
            transport, origin = httpx.ASGITransport(app=house.app), {"Origin": "http://localhost"}
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=origin) as browser:
                assert (await browser.post("/login", data={"key": house.secret})).status_code == 303
                for path in ("/", "/vms", f"/vms/{vm}", "/queue"):
                    assert LACKING in (await browser.get(path)).text, path

    asyncio.run(story())


def test_a_gang_that_lost_a_member_while_it_waited_says_so_and_not_what_hosts_lacked() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=2)
            await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
            first, _, third = [await joined(house, name) for name in ("one", "two", "three")]
            [refused] = await whys(house, first)
            assert refused.startswith("0 of 1 host: ")
            await house.ask("DELETE", f"/v1/vms/{third}")
            await house.settle()
            assert await whys(house, first) == {LACKING}

    asyncio.run(story())
