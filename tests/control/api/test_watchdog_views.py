"""What a host says of its watchdog, and which VMs nobody knows, where people look."""

from __future__ import annotations

import re

import msgspec

from hostler.agent.messages import Report, VmReport
from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_fleet import REGISTER, joined, send
from tests.control.api.test_sessions_ended import log_in


async def page(service: InProcessService, cookie: str) -> str:
    """Return the words of a host's page."""
    headers = {"Authorization": "", "Cookie": f"hostler={cookie}", "Accept": "text/html"}
    answer = await service.client.get("/hosts/node-1", headers=headers)
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]*>", " ", answer.text).split())


async def test_whether_a_watchdog_was_seen_is_shown_as_the_host_tells_it() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        me, cookie = await joined(service, "node-1"), await log_in(service)
        message = msgspec.structs.replace(REGISTER, is_watched=True)
        epoch = (await send(service, me.credential, "/agent/v1/register", message)).json()["epoch"]
        assert (await service.ask("GET", "/v1/hosts/node-1")).json()["watched"] is True
        assert "Watchdog works" in await page(service, cookie)
        report = Report(boot="boot-1", agent="agent-1", epoch=epoch, sequence=1)
        assert (await send(service, me.credential, "/agent/v1/report", report)).status_code == 200
        assert (await service.ask("GET", "/v1/hosts")).json()["items"][0]["watched"] is False
        assert "Watchdog none seen" in await page(service, cookie)


async def test_vms_that_nobody_knows_are_listed_with_those_that_nobody_ordered() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        me, cookie = await joined(service, "node-1"), await log_in(service)
        found = (VmReport(vm="of-a-lost-row", state="running", generation=3),)
        message = msgspec.structs.replace(REGISTER, vms=found, unknown=("of-another",))
        assert (await send(service, me.credential, "/agent/v1/register", message)).status_code == 200
        assert (await service.ask("GET", "/v1/hosts/node-1")).json()["unknown_vms"] == [
            "of-a-lost-row",
            "of-another",
        ]
        assert "It has 2 VMs without a request or unknown to Hostler" in await page(service, cookie)
        events = (await service.ask("GET", "/v1/events?limit=500")).json()["items"]
        assert [one["subject"] for one in events if "unknown VM" in one["text"]] == [me.host]
