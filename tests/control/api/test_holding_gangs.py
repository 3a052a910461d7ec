"""Gangs that hold room while they wait: who may have one, and what its members say."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.control.api.house import open_house
from tests.control.api.test_projects_apart import said, two_projects, wish

HOLDING = {"project": "red", "min_count": 4, "head_of_line": "reserve"}
REFUSED = (
    403,
    "forbidden",
    "head_of_line: reserve keeps room from everybody, and reservation.change concerns all projects, and this key is "
    "for project red only",
)


def test_an_editor_of_one_project_cannot_hold_an_empty_fleet_by_a_gang_that_fits_nowhere() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a", "b", "c")
            red, _ = await two_projects(house)
            refused = await house.as_key(red, "POST", "/v1/gangs", json={"name": "hog", **HOLDING})
            assert said(refused) == REFUSED
            assert refused.json()["hint"].startswith("choose head_of_line skip")
            skipping = {"name": "hog", "project": "red", "min_count": 4}
            assert (await house.as_key(red, "POST", "/v1/gangs", json=skipping)).status_code == 201
            edit = {"head_of_line": "reserve"}
            assert said(await house.as_key(red, "PATCH", "/v1/gangs/red/hog", json=edit)) == REFUSED
            for number in range(4):
                assert (await wish(house, red, f"hog{number}", "red", gang="hog", cpu="3")).is_success
            await house.settle()
            theirs = await house.create("theirs", project="blue", spec={"cpu": "3"}, on_unplaceable="fail")
            assert theirs.status_code == 202, theirs.text

    asyncio.run(story())


def test_who_may_reserve_room_may_let_a_gang_hold_it_and_its_project_may_edit_the_rest() -> None:
    async def story() -> None:
        async with open_house() as house:
            red, everywhere = await two_projects(house)
            made = await house.as_key(everywhere, "POST", "/v1/gangs", json={"name": "crew", **HOLDING})
            assert made.status_code == 201, made.text
            edited = await house.as_key(red, "PATCH", "/v1/gangs/red/crew", json={"min_count": 2})
            assert (edited.status_code, edited.json()["head_of_line"]) == (200, "reserve")
            let = await house.as_key(red, "PATCH", "/v1/gangs/red/crew", json={"head_of_line": "skip"})
            assert let.status_code == 200
            again = {"head_of_line": "reserve"}
            assert said(await house.as_key(red, "PATCH", "/v1/gangs/red/crew", json=again)) == REFUSED

    asyncio.run(story())


def test_members_say_that_room_is_kept_for_them_and_not_that_it_is_made() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a", "b")
            await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3, "head_of_line": "reserve"})
            for name in ("one", "two", "three"):
                await house.create(name, spec={"cpu": "3", "gang": "crew"})
            await house.settle()
            found: list[dict[str, Any]] = (await house.ask("GET", "/v1/vms")).json()["items"]
            kept = "room on {} is kept for it until there is room for the rest of its gang"
            *held, left = sorted((one["why"] for one in found), reverse=True)
            assert held == [kept.format("b"), kept.format("a")]
            assert left.startswith("0 of 2 hosts: ")
            await house.add_hosts("c")
            await house.settle()
            placed = (await house.ask("GET", "/v1/vms")).json()["items"]
            assert {one["host"] for one in placed} == {"a", "b", "c"}

    asyncio.run(story())
