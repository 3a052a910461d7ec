"""A VM whose gang is not complete: everybody who shows it says what is waited for, and nobody once it is there."""

from __future__ import annotations

import httpx

from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service

LACKING = "2/3 members of gang default/crew are there, it waits for the rest"


async def whys(service: InProcessService, vm: str) -> set[str]:
    """Return why a VM waits, as each route says it."""
    one = (await service.ask("GET", f"/v1/vms/{vm}")).json()
    listed = (await service.ask("GET", "/v1/vms")).json()["items"]
    queued = (await service.ask("GET", "/v1/queue")).json()["items"]
    placed = next(found for found in one["conditions"] if found["type"] == "placed")
    return {
        one["why"],
        placed["message"],
        *(found["why"] for found in listed if found["id"] == vm),
        *(found["why"] for found in queued if found["vm"] == vm),
    }


async def joined(service: InProcessService, name: str) -> str:
    vm = str((await service.create(name, spec={"gang": "crew"})).json()["vm"]["id"])
    await service.settle()
    return vm


async def test_it_says_how_many_members_are_there_until_all_are() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
        first = await joined(service, "one")
        assert await whys(service, first) == {LACKING.replace("2/3", "1/3")}
        await joined(service, "two")
        assert await whys(service, first) == {LACKING}
        await joined(service, "three")
        assert await whys(service, first) == {""}


async def test_it_says_that_nobody_has_made_its_gang() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await joined(service, "one")
        assert await whys(service, vm) == {"there is no gang default/crew yet"}


async def test_pages_say_the_same() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
        vm, _ = [await joined(service, name) for name in ("one", "two")]
        transport, origin = httpx.ASGITransport(app=service.app), {"Origin": "http://localhost"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=origin) as browser:
            assert (await browser.post("/login", data={"key": service.secret})).status_code == 303
            for path in ("/", "/vms", f"/vms/{vm}", "/queue"):
                assert LACKING in (await browser.get(path)).text, path


async def test_waiting_gang_that_lost_a_member_reports_that() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=2)
        await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
        first, _, third = [await joined(service, name) for name in ("one", "two", "three")]
        [refused] = await whys(service, first)
        assert refused.startswith("0 of 1 host: ")
        await service.ask("DELETE", f"/v1/vms/{third}")
        await service.settle()
        assert await whys(service, first) == {LACKING}
