"""What a host says of its watchdog, and which VMs nobody knows, where people look."""

from __future__ import annotations

import asyncio
import re

import msgspec

from hostler.agent.messages import Report, VmReport
from hostler.web.pages import mount
from tests.control.api.house import House, open_house
from tests.control.api.test_fleet import REGISTER, joined, send
from tests.control.api.test_sessions_ended import log_in


async def page(house: House, cookie: str) -> str:
    """Return the words of a host's page."""
    headers = {"Authorization": "", "Cookie": f"hostler={cookie}", "Accept": "text/html"}
    answer = await house.client.get("/hosts/node-1", headers=headers)
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]*>", " ", answer.text).split())


def test_whether_a_watchdog_was_seen_is_shown_as_the_host_tells_it() -> None:
    async def story() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            me, cookie = await joined(house, "node-1"), await log_in(house)
            message = msgspec.structs.replace(REGISTER, is_watched=True)
            epoch = (await send(house, me.credential, "/agent/v1/register", message)).json()["epoch"]
            assert (await house.ask("GET", "/v1/hosts/node-1")).json()["watched"] is True
            assert "Watchdog works" in await page(house, cookie)
            report = Report(boot="boot-1", agent="agent-1", epoch=epoch, sequence=1)
            assert (await send(house, me.credential, "/agent/v1/report", report)).status_code == 200
            assert (await house.ask("GET", "/v1/hosts")).json()["items"][0]["watched"] is False
            assert "Watchdog none seen" in await page(house, cookie)

    asyncio.run(story())


def test_vms_that_nobody_knows_are_listed_with_those_that_nobody_ordered() -> None:
    async def story() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            me, cookie = await joined(house, "node-1"), await log_in(house)
            found = (VmReport(vm="of-a-lost-row", state="running", generation=3),)
            message = msgspec.structs.replace(REGISTER, vms=found, unknown=("of-somebody",))
            assert (await send(house, me.credential, "/agent/v1/register", message)).status_code == 200
            assert (await house.ask("GET", "/v1/hosts/node-1")).json()["unknown_vms"] == [
                "of-a-lost-row",
                "of-somebody",
            ]
            assert "It has 2 VMs that nobody ordered, or that nobody knows" in await page(house, cookie)
            events = (await house.ask("GET", "/v1/events?limit=500")).json()["items"]
            assert [one["subject"] for one in events if "nobody knows" in one["text"]] == [me.host]

    asyncio.run(story())
