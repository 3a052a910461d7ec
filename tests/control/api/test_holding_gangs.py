"""Gangs that hold room while they wait: who may have one, and what its members say."""

from __future__ import annotations

from typing import Any

from tests.control.api.service_in_process import open_service
from tests.control.api.test_project_isolation import said, two_projects, wish

HOLDING = {"project": "red", "min_count": 4, "head_of_line": "reserve"}
REFUSED = (
    403,
    "forbidden",
    "head_of_line: reserve holds room that others need, and reservation.change concerns all projects, and this key is "
    "for project red only",
)


async def test_project_editor_cannot_hold_fleet_with_unplaceable_gang() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", "c")
        red, _ = await two_projects(service)
        refused = await service.as_key(red, "POST", "/v1/gangs", json={"name": "hog", **HOLDING})
        assert said(refused) == REFUSED
        assert refused.json()["hint"].startswith("choose head_of_line skip")
        skipping = {"name": "hog", "project": "red", "min_count": 4}
        assert (await service.as_key(red, "POST", "/v1/gangs", json=skipping)).status_code == 201
        edit = {"head_of_line": "reserve"}
        assert said(await service.as_key(red, "PATCH", "/v1/gangs/red/hog", json=edit)) == REFUSED
        for number in range(4):
            assert (await wish(service, red, f"hog{number}", "red", gang="hog", cpu="3")).is_success
        await service.settle()
        theirs = await service.create("theirs", project="blue", spec={"cpu": "3"}, on_unplaceable="fail")
        assert theirs.status_code == 202, theirs.text


async def test_holding_gang_needs_reservation_permission_to_create_only() -> None:
    async with open_service() as service:
        red, everywhere = await two_projects(service)
        made = await service.as_key(everywhere, "POST", "/v1/gangs", json={"name": "crew", **HOLDING})
        assert made.status_code == 201, made.text
        edited = await service.as_key(red, "PATCH", "/v1/gangs/red/crew", json={"min_count": 2})
        assert (edited.status_code, edited.json()["head_of_line"]) == (200, "reserve")
        let = await service.as_key(red, "PATCH", "/v1/gangs/red/crew", json={"head_of_line": "skip"})
        assert let.status_code == 200
        again = {"head_of_line": "reserve"}
        assert said(await service.as_key(red, "PATCH", "/v1/gangs/red/crew", json=again)) == REFUSED


async def test_members_say_that_room_is_kept_for_them_and_not_that_it_is_made() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3, "head_of_line": "reserve"})
        for name in ("one", "two", "three"):
            await service.create(name, spec={"cpu": "3", "gang": "crew"})
        await service.settle()
        found: list[dict[str, Any]] = (await service.ask("GET", "/v1/vms")).json()["items"]
        kept = "room on {} is kept for it until there is room for the rest of its gang"
        *held, left = sorted((one["why"] for one in found), reverse=True)
        assert held == [kept.format("b"), kept.format("a")]
        assert left.startswith("0 of 2 hosts: ")
        await service.add_hosts("c")
        await service.settle()
        placed = (await service.ask("GET", "/v1/vms")).json()["items"]
        assert {one["host"] for one in placed} == {"a", "b", "c"}
