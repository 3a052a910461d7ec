"""Pages say that nobody decides while no replica leads, and not that a VM is about to be decided."""

from __future__ import annotations

import httpx

from hostler.control.store.history import lease
from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service

ABOUT_TO_BE_DECIDED = "the decision is pending"
NO_LEADER = "no replica is deciding at the moment"


async def assert_shown(service: InProcessService, told: str, untold: str) -> None:
    transport, origin = httpx.ASGITransport(app=service.app), {"Origin": "http://localhost"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=origin) as browser:
        assert (await browser.post("/login", data={"key": service.secret})).status_code == 303
        for path in ("/", "/queue"):
            page = (await browser.get(path)).text
            assert (told in page, untold in page) == (True, False), path


async def test_undecided_vm_waits_for_a_leader_if_there_is_none() -> None:
    async with open_service(is_led=False) as service:
        mount(service.app, service.context)
        assert (await service.create("web")).status_code == 202
        await assert_shown(service, NO_LEADER, ABOUT_TO_BE_DECIDED)
        await service.database.write(lambda connection: lease.take(connection, "another", 60))
        await assert_shown(service, ABOUT_TO_BE_DECIDED, NO_LEADER)
