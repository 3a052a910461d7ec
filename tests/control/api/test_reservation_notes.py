"""A reservation is taken whatever it takes, and the answer says what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hostler.control.settings import ControlSettings
from tests.async_tests import run_with
from tests.control.api.service_in_process import InProcessService, open_service

HALF = {"name": "night", "amounts": {"cpu": 2}}
WAITS = "a part of its room is still in use, and is kept as soon as it is free"


def in_house(scenario: Callable[[InProcessService], Awaitable[None]], settings: ControlSettings | None = None) -> None:
    """Play a scenario in a service with two hosts of 4 cpus."""

    async def play() -> None:
        async with open_service(settings=settings) as service:
            await service.add_hosts("a", "b")
            await service.settle()
            await scenario(service)

    asyncio.run(play())


async def kept(service: InProcessService, **more: Any) -> str:
    """Keep room, and return what that is said to do."""
    answer = await service.ask("POST", "/v1/reservations", json={**HALF, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["note"])


@run_with(in_house)
async def test_the_hosts_that_keep_it_are_counted(service: InProcessService, /) -> None:
    assert await kept(service) == "2 of 2 hosts keep it"
    one = {"kubernetes.io/hostname": "a"}
    assert (
        await kept(service, name="one", host_selector=one) == "1 of 2 hosts keeps it; 1 host has no cpu left for "
        "others than project default"
    )
    assert await kept(service, name="none", host_selector={"zone": "moon"}) == (
        "none of 2 hosts matches it: it keeps nothing"
    )


@run_with(in_house)
async def test_one_that_closes_the_whole_fleet_says_so(service: InProcessService, /) -> None:
    assert await kept(service, amounts={"cpu": 4}) == (
        "2 of 2 hosts keep it; no host has cpu left for others than project default"
    )
    assert await kept(service, name="crew", gang="crew", amounts={"memory": "8Gi"}) == (
        "2 of 2 hosts keep it; no host has memory left for others than gang crew of project default"
    )


@run_with(in_house)
async def test_one_that_holds_more_than_is_free_is_not_wholly_held_yet(service: InProcessService, /) -> None:
    assert (await service.ask("POST", "/v1/projects", json={"name": "red"})).is_success
    assert (await service.create("web", project="red", spec={"cpu": "3", "host_name": "a"})).is_success
    await service.settle()
    assert await kept(service) == (
        f"2 of 2 hosts keep it; on 1 of them {WAITS}; 1 host has no cpu left for others than project default"
    )


@run_with(in_house)
async def test_what_its_own_vms_have_is_held(service: InProcessService, /) -> None:
    assert (await service.create("web", spec={"cpu": "2", "host_name": "a"})).is_success
    await service.settle()
    assert await kept(service) == "2 of 2 hosts keep it"


@run_with(in_house)
async def test_one_that_has_not_begun_keeps_nothing_now(service: InProcessService, /) -> None:
    assert await kept(service, since="2090-01-31T06:00:00Z") == (
        "2 of 2 hosts match it, but it has not begun, or has ended"
    )


@run_with(in_house)
async def test_what_it_does_is_reported_again_when_it_is_changed_or_looked_at(service: InProcessService, /) -> None:
    await kept(service)
    path, closed = "/v1/reservations/default/night", "no host has cpu left for others than project default"
    answer = await service.ask("PATCH", path, json={"amounts": {"cpu": 4}})
    assert answer.json()["note"] == f"2 of 2 hosts keep it; {closed}"
    assert (await service.ask("GET", path)).json()["note"] == f"2 of 2 hosts keep it; {closed}"
    [listed] = (await service.ask("GET", "/v1/reservations")).json()["items"]
    assert listed["note"] == ""


def test_what_hosts_may_not_give_is_not_there_to_be_kept() -> None:
    settings = ControlSettings(verdict_s=60.0, reserve=(("cpu", 2000),))

    async def scenario(service: InProcessService) -> None:
        assert await kept(service) == "2 of 2 hosts keep it; no host has cpu left for others than project default"

    in_house(scenario, settings)


@run_with(in_house)
async def test_a_resource_that_no_host_has_is_not_held(service: InProcessService, /) -> None:
    assert await kept(service, amounts={"example.com/dongle": 1}) == (
        f"2 of 2 hosts keep it; on 2 of them {WAITS}; "
        "no host has example.com/dongle left for others than project default"
    )
