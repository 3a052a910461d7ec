"""Pages say that nobody decides while no replica leads, and not that a VM is about to be decided."""

from __future__ import annotations

import asyncio

import httpx

from hostler.control.store import lease
from hostler.web.pages import mount
from tests.control.api.house import House, open_house

ABOUT_TO_BE_DECIDED = "it is about to be decided"
NO_LEADER = "nobody decides at the moment"


async def assert_shown(house: House, told: str, untold: str) -> None:
    transport, origin = httpx.ASGITransport(app=house.app), {"Origin": "http://localhost"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=origin) as browser:
        assert (await browser.post("/login", data={"key": house.secret})).status_code == 303
        for path in ("/", "/queue"):
            page = (await browser.get(path)).text
            assert (told in page, untold in page) == (True, False), path


def test_undecided_vm_waits_for_a_leader_if_there_is_none() -> None:
    async def story() -> None:
        async with open_house(is_led=False) as house:
            mount(house.app, house.context)
            assert (await house.create("web")).status_code == 202
            await assert_shown(house, NO_LEADER, ABOUT_TO_BE_DECIDED)
            await house.database.write(lambda connection: lease.take(connection, "another", 60))
            await assert_shown(house, ABOUT_TO_BE_DECIDED, NO_LEADER)

    asyncio.run(story())
