"""A reservation is taken whatever it takes, and the answer says what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hostler.control.settings import ControlSettings
from tests.control.api.house import House, open_house

HALF = {"name": "night", "amounts": {"cpu": 2}}
WAITS = "it is not wholly held yet: that room is not free, and is kept as soon as it is"


def in_house(scenario: Callable[[House], Awaitable[None]], settings: ControlSettings | None = None) -> None:
    """Play a scenario in a service with two hosts of 4 cpus."""

    async def play() -> None:
        async with open_house(settings=settings) as house:
            await house.add_hosts("a", "b")
            await house.settle()
            await scenario(house)

    asyncio.run(play())


async def kept(house: House, **more: Any) -> str:
    """Keep room, and return what that is said to do."""
    answer = await house.ask("POST", "/v1/reservations", json={**HALF, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["note"])


def test_the_hosts_that_keep_it_are_counted() -> None:
    async def scenario(house: House) -> None:
        assert await kept(house) == "2 of 2 hosts keep it"
        one = {"kubernetes.io/hostname": "a"}
        assert (
            await kept(house, name="one", host_selector=one) == "1 of 2 hosts keeps it; 1 host has no cpu left for "
            "others than project default"
        )
        assert await kept(house, name="none", host_selector={"zone": "moon"}) == (
            "none of 2 hosts matches it: nothing is kept"
        )

    in_house(scenario)


def test_one_that_closes_the_whole_fleet_says_so() -> None:
    async def scenario(house: House) -> None:
        assert await kept(house, amounts={"cpu": 4}) == (
            "2 of 2 hosts keep it; no host has cpu left for others than project default"
        )
        assert await kept(house, name="crew", gang="crew", amounts={"memory": "8Gi"}) == (
            "2 of 2 hosts keep it; no host has memory left for others than gang crew of project default"
        )

    in_house(scenario)


def test_one_that_holds_more_than_is_free_is_not_wholly_held_yet() -> None:
    async def scenario(house: House) -> None:
        assert (await house.ask("POST", "/v1/projects", json={"name": "red"})).is_success
        assert (await house.create("web", project="red", spec={"cpu": "3", "host_name": "a"})).is_success
        await house.settle()
        assert await kept(house) == (
            f"2 of 2 hosts keep it; on 1 of them {WAITS}; 1 host has no cpu left for others than project default"
        )

    in_house(scenario)


def test_what_its_own_vms_have_is_held() -> None:
    async def scenario(house: House) -> None:
        assert (await house.create("web", spec={"cpu": "2", "host_name": "a"})).is_success
        await house.settle()
        assert await kept(house) == "2 of 2 hosts keep it"

    in_house(scenario)


def test_one_that_has_not_begun_keeps_nothing_now() -> None:
    async def scenario(house: House) -> None:
        assert await kept(house, since="2090-01-31T06:00:00Z") == (
            "2 of 2 hosts would keep it, and none does now: it has not begun, or has ended"
        )

    in_house(scenario)


def test_what_it_does_is_told_again_when_it_is_changed_or_looked_at() -> None:
    async def scenario(house: House) -> None:
        await kept(house)
        path, closed = "/v1/reservations/default/night", "no host has cpu left for others than project default"
        answer = await house.ask("PATCH", path, json={"amounts": {"cpu": 4}})
        assert answer.json()["note"] == f"2 of 2 hosts keep it; {closed}"
        assert (await house.ask("GET", path)).json()["note"] == f"2 of 2 hosts keep it; {closed}"
        [listed] = (await house.ask("GET", "/v1/reservations")).json()["items"]
        assert listed["note"] == ""

    in_house(scenario)


def test_what_hosts_may_not_give_is_not_there_to_be_kept() -> None:
    settings = ControlSettings(verdict_s=60.0, reserve=(("cpu", 2000),))

    async def scenario(house: House) -> None:
        assert await kept(house) == "2 of 2 hosts keep it; no host has cpu left for others than project default"

    in_house(scenario, settings)


def test_a_resource_that_no_host_has_is_not_held() -> None:
    async def scenario(house: House) -> None:
        assert await kept(house, amounts={"example.com/dongle": 1}) == (
            f"2 of 2 hosts keep it; on 2 of them {WAITS}; "
            "no host has example.com/dongle left for others than project default"
        )

    in_house(scenario)
