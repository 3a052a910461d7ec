"""Projects neither hurt nor see each other: how far a VM's wishes reach, and how important it may be."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.control.api.house import SMALL, House, open_house

HOST = "kubernetes.io/hostname"
LISTS = ("affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity")


def term(place: str, **more: Any) -> dict[str, Any]:
    """Return the part of a spec that has one term about other VMs."""
    one = {"topology": HOST, "selector": {}, **more}
    return {place: [{"weight": 1, "term": one} if place.startswith("preferred") else one]}


async def two_projects(house: House) -> tuple[str, str]:
    """Make red and blue; return the key of an editor of red, and that of an editor of all projects."""
    for name in ("red", "blue"):
        assert (await house.ask("POST", "/v1/projects", json={"name": name})).status_code == 201
    return await house.key("editor", "red"), await house.key("editor")


async def wish(house: House, key: str, name: str, project: str, **spec: Any) -> httpx.Response:
    body = {"name": name, "project": project, "spec": {**SMALL, **spec}}
    return await house.as_key(key, "POST", "/v1/vms", json=body)


def said(answer: httpx.Response) -> tuple[int, str, str]:
    told = answer.json()
    return answer.status_code, told.get("code", ""), told.get("detail", "")


@pytest.mark.parametrize("place", LISTS)
def test_a_term_reaches_only_projects_that_its_author_may_read(place: str) -> None:
    async def scenario() -> None:
        async with open_house() as house:
            red, everywhere = await two_projects(house)
            for more, field in (
                ({"namespace_selector": {}}, "namespace_selector"),
                ({"namespaces": ["red", "blue"]}, "namespaces"),
            ):
                code, problem, detail = said(await wish(house, red, "far", "red", **term(place, **more)))
                assert (code, problem) == (403, "forbidden")
                assert field in detail
                assert place in detail
                assert (
                    await wish(house, everywhere, f"far-{field.replace('_', '-')}", "red", **term(place, **more))
                ).is_success
            assert (await wish(house, red, "near", "red", **term(place, namespaces=["red"]))).is_success
            assert (await wish(house, red, "own", "red", **term(place))).is_success

    asyncio.run(scenario())


def test_a_tiny_vm_does_not_keep_the_vms_of_other_projects_away() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            red, _ = await two_projects(house)
            refused = await wish(house, red, "mine", "red", **term("anti_affinity", namespace_selector={}))
            assert refused.status_code == 403
            await house.create("theirs", project="blue")
            await house.settle()
            theirs = (await house.ask("GET", "/v1/vms/blue%2Ftheirs")).json()
            found = (await house.ask("GET", "/v1/vms", params={"project": "blue"})).json()["items"]
            assert [one["host"] for one in found] == ["a"], theirs

    asyncio.run(scenario())


def test_an_edit_and_a_what_if_reach_no_farther_than_a_new_vm() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            red, _ = await two_projects(house)
            wide = term("anti_affinity", namespaces=["blue"])
            made = (await wish(house, red, "web", "red")).json()["vm"]["id"]
            assert said(await house.as_key(red, "PATCH", f"/v1/vms/{made}", json={"spec": wide}))[:2] == (
                403,
                "forbidden",
            )
            spec = {**SMALL, **wide}
            plan = await house.as_key(
                red, "POST", "/v1/plan", json={"vms": [{"project": "red", "name": "x", "spec": spec}]}
            )
            one = await house.as_key(red, "POST", "/v1/candidates", json={"project": "red", "spec": spec})
            assert said(plan)[:2] == said(one)[:2] == (403, "forbidden")

    asyncio.run(scenario())


def test_what_an_administrator_gave_a_vm_stays_when_its_project_edits_the_rest() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            red, _ = await two_projects(house)
            spec = {"priority": 50, **term("anti_affinity", namespaces=["blue"])}
            made = (await house.create("web", project="red", spec=spec)).json()["vm"]["id"]
            path = f"/v1/vms/{made}"
            assert (await house.as_key(red, "PATCH", path, json={"spec": {"cpu": "2"}})).is_success
            assert (await house.as_key(red, "PATCH", path, json={"spec": {"priority": 40}})).is_success
            raised = await house.as_key(red, "PATCH", path, json={"spec": {"priority": 41}})
            assert said(raised)[:2] == (403, "forbidden")

    asyncio.run(scenario())


def test_a_priority_is_bounded_by_its_project() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            red, everywhere = await two_projects(house)
            assert (await house.ask("GET", "/v1/projects/red")).json()["max_priority"] == 0
            for key in (red, everywhere):
                code, problem, detail = said(await wish(house, key, "high", "red", priority=2**31 - 1))
                assert (code, problem) == (403, "forbidden")
                assert "priority" in detail
                assert "limit 0" in detail
            assert (await wish(house, red, "low", "red", priority=-5)).is_success
            limit = await house.ask("PATCH", "/v1/projects/red", json={"max_priority": 10})
            assert limit.json()["max_priority"] == 10
            assert (await wish(house, red, "ten", "red", priority=10)).is_success
            assert (await wish(house, red, "eleven", "red", priority=11)).status_code == 403
            assert (await house.create("any", project="red", spec={"priority": 11})).is_success
            made = await house.ask("POST", "/v1/projects", json={"name": "green", "max_priority": 7})
            assert made.json()["max_priority"] == 7

    asyncio.run(scenario())


def test_a_gang_and_a_what_if_keep_to_the_limit_too() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            red, _ = await two_projects(house)
            crew = {"project": "red", "name": "crew", "priority": 1}
            assert said(await house.as_key(red, "POST", "/v1/gangs", json=crew))[:2] == (403, "forbidden")
            assert (await house.as_key(red, "POST", "/v1/gangs", json={**crew, "priority": 0})).status_code == 201
            edited = await house.as_key(red, "PATCH", "/v1/gangs/red/crew", json={"priority": 1})
            assert said(edited)[:2] == (403, "forbidden")
            assert (await house.ask("PATCH", "/v1/gangs/red/crew", json={"priority": 9})).is_success
            assert (await house.as_key(red, "PATCH", "/v1/gangs/red/crew", json={"min_count": 2})).is_success
            spec = {**SMALL, "priority": 1}
            plan = await house.as_key(
                red, "POST", "/v1/plan", json={"vms": [{"project": "red", "name": "x", "spec": spec}]}
            )
            one = await house.as_key(red, "POST", "/v1/candidates", json={"project": "red", "spec": spec})
            assert said(plan)[:2] == said(one)[:2] == (403, "forbidden")

    asyncio.run(scenario())


def test_only_an_administrator_of_all_projects_sets_the_limit_and_lowering_it_leaves_vms_alone() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            red, _ = await two_projects(house)
            own = await house.key("admin", "red")
            raised = await house.as_key(own, "PATCH", "/v1/projects/red", json={"max_priority": 9})
            assert said(raised)[:2] == (403, "forbidden")
            assert (await house.as_key(own, "PATCH", "/v1/projects/red", json={"description": "ours"})).is_success
            await house.ask("PATCH", "/v1/projects/red", json={"max_priority": 9})
            made = (await wish(house, red, "web", "red", priority=9)).json()["vm"]["id"]
            await house.ask("PATCH", "/v1/projects/red", json={"max_priority": 0})
            assert (await house.ask("GET", f"/v1/vms/{made}")).json()["spec"]["priority"] == 9
            assert (await house.as_key(red, "PATCH", f"/v1/vms/{made}", json={"spec": {"cpu": "2"}})).is_success
            negative = await house.ask("PATCH", "/v1/projects/red", json={"max_priority": -1})
            assert said(negative)[:2] == (400, "invalid_input")

    asyncio.run(scenario())


def test_decisions_and_what_ifs_do_not_name_vms_of_other_projects() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=4)
            red, _ = await two_projects(house)
            await house.ask("PATCH", "/v1/projects/red", json={"max_priority": 10})
            apart = term("anti_affinity", namespaces=["blue", "red"])
            await house.create("secret", project="blue", spec={"cpu": "3", **apart})
            await house.settle()
            waits = (await wish(house, red, "web", "red", cpu="2")).json()["vm"]["id"]
            await house.settle()
            spec = {**SMALL, "cpu": "2", "priority": 10}
            plan = {"vms": [{"project": "red", "name": "high", "spec": spec}]}
            asked = (
                ("GET", f"/v1/vms/{waits}/decision", None),
                ("POST", "/v1/plan", plan),
                ("POST", "/v1/candidates", {"project": "red", "spec": {**SMALL, "cpu": "2"}}),
            )
            for method, path, body in asked:
                ours = await house.as_key(red, method, path, json=body)
                theirs = await house.ask(method, path, json=body)
                assert ours.status_code == theirs.status_code == 200, ours.text
                assert "secret" in theirs.text, path
                assert "secret" not in ours.text, path
                assert "a VM of another project" in ours.text, path

    asyncio.run(scenario())


def test_whoever_may_not_move_a_vm_learns_nothing_of_hosts() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            red, _ = await two_projects(house)
            viewer = await house.key("viewer", "red")
            theirs = (await house.create("theirs", project="blue")).json()["vm"]["id"]
            ours = (await wish(house, red, "ours", "red")).json()["vm"]["id"]
            for host in ("a", "nowhere"):
                hidden = await house.as_key(red, "POST", f"/v1/vms/{theirs}/migrate", json={"host": host})
                assert said(hidden)[:2] == (404, "not_found")
                refused = await house.as_key(viewer, "POST", f"/v1/vms/{ours}/migrate", json={"host": host})
                assert said(refused)[:2] == (403, "forbidden")
            unknown = await house.as_key(red, "POST", f"/v1/vms/{ours}/migrate", json={"host": "nowhere"})
            assert said(unknown)[:2] == (400, "invalid_input")

    asyncio.run(scenario())
