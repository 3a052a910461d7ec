"""What a gang says of members that are not placed: how many are there, how many are stopped, or what was decided."""

from __future__ import annotations

from typing import Any

from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_incomplete_gangs import joined, whys


async def gang(service: InProcessService) -> dict[str, Any]:
    """Return the gang crew: alone it is the same as in the list."""
    one = (await service.ask("GET", "/v1/gangs/default/crew")).json()
    assert (await service.ask("GET", "/v1/gangs")).json()["items"] == [one]
    return dict(one)


async def stop(service: InProcessService, *vms: str) -> None:
    for vm in vms:
        assert (await service.ask("POST", f"/v1/vms/{vm}/stop")).is_success
    await service.settle()


async def test_a_gang_says_how_many_members_it_lacks_until_all_are_placed() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
        assert (await gang(service))["why"] == ""
        for name in ("one", "two"):
            await joined(service, name)
        assert (await gang(service))["why"] == "2/3 members are there, it waits for the rest"
        await joined(service, "three")
        found = await gang(service)
        assert (found["placed"], found["stopped"], found["why"], found["reason"]) == (3, 0, "", "")


async def test_stopped_members_are_counted_in_gang_and_reasons() -> None:
    async with open_service() as service:
        await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
        first, *others = [await joined(service, name) for name in ("one", "two", "three")]
        await stop(service, *others)
        found = await gang(service)
        assert found["stopped"] == 2
        assert found["why"] == "1/3 members are there, it waits for the rest; 2 are stopped"
        lacking = "1/3 members of gang default/crew are there, it waits for the rest; 2 are stopped"
        assert await whys(service, first) == {lacking}
        await stop(service, first)
        assert (await gang(service))["why"] == "3 are stopped"


async def test_a_gang_that_is_complete_and_finds_no_room_says_what_was_decided() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=2)
        await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})
        first, *_ = [await joined(service, name) for name in ("one", "two", "three")]
        assert {(await gang(service))["why"]} == await whys(service, first)
        assert (await gang(service))["reason"] == "waiting"
        assert "host" in (await gang(service))["why"]
