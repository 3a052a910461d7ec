"""Projects neither hurt nor see each other: how far a VM's wishes reach, and how important it may be."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.control.api.service_in_process import SMALL, InProcessService, open_service

HOST = "kubernetes.io/hostname"
LISTS = ("affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity")


def term(place: str, **more: Any) -> dict[str, Any]:
    """Return the part of a spec that has one term about other VMs."""
    one = {"topology": HOST, "selector": {}, **more}
    return {place: [{"weight": 1, "term": one} if place.startswith("preferred") else one]}


async def two_projects(service: InProcessService) -> tuple[str, str]:
    """Make red and blue; return the key of an editor of red, and that of an editor of all projects."""
    for name in ("red", "blue"):
        assert (await service.ask("POST", "/v1/projects", json={"name": name})).status_code == 201
    return await service.key("editor", "red"), await service.key("editor")


async def wish(service: InProcessService, key: str, name: str, project: str, **spec: Any) -> httpx.Response:
    body = {"name": name, "project": project, "spec": {**SMALL, **spec}}
    return await service.as_key(key, "POST", "/v1/vms", json=body)


def said(answer: httpx.Response) -> tuple[int, str, str]:
    told = answer.json()
    return answer.status_code, told.get("code", ""), told.get("detail", "")


@pytest.mark.parametrize("place", LISTS)
async def test_a_term_reaches_only_projects_that_its_author_may_read(place: str) -> None:
    async with open_service() as service:
        red, everywhere = await two_projects(service)
        for more, field in (
            ({"namespace_selector": {}}, "namespace_selector"),
            ({"namespaces": ["red", "blue"]}, "namespaces"),
        ):
            code, problem, detail = said(await wish(service, red, "far", "red", **term(place, **more)))
            assert (code, problem) == (403, "forbidden")
            assert field in detail
            assert place in detail
            assert (
                await wish(service, everywhere, f"far-{field.replace('_', '-')}", "red", **term(place, **more))
            ).is_success
        assert (await wish(service, red, "near", "red", **term(place, namespaces=["red"]))).is_success
        assert (await wish(service, red, "own", "red", **term(place))).is_success


async def test_a_tiny_vm_does_not_keep_the_vms_of_other_projects_away() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        red, _ = await two_projects(service)
        refused = await wish(service, red, "mine", "red", **term("anti_affinity", namespace_selector={}))
        assert refused.status_code == 403
        await service.create("theirs", project="blue")
        await service.settle()
        theirs = (await service.ask("GET", "/v1/vms/blue%2Ftheirs")).json()
        found = (await service.ask("GET", "/v1/vms", params={"project": "blue"})).json()["items"]
        assert [one["host"] for one in found] == ["a"], theirs


async def test_an_edit_and_a_what_if_reach_no_farther_than_a_new_vm() -> None:
    async with open_service() as service:
        red, _ = await two_projects(service)
        wide = term("anti_affinity", namespaces=["blue"])
        made = (await wish(service, red, "web", "red")).json()["vm"]["id"]
        assert said(await service.as_key(red, "PATCH", f"/v1/vms/{made}", json={"spec": wide}))[:2] == (
            403,
            "forbidden",
        )
        spec = {**SMALL, **wide}
        plan = await service.as_key(
            red, "POST", "/v1/plan", json={"vms": [{"project": "red", "name": "x", "spec": spec}]}
        )
        one = await service.as_key(red, "POST", "/v1/candidates", json={"project": "red", "spec": spec})
        assert said(plan)[:2] == said(one)[:2] == (403, "forbidden")


async def test_priority_from_administrator_survives_project_edit() -> None:
    async with open_service() as service:
        red, _ = await two_projects(service)
        spec = {"priority": 50, **term("anti_affinity", namespaces=["blue"])}
        made = (await service.create("web", project="red", spec=spec)).json()["vm"]["id"]
        path = f"/v1/vms/{made}"
        assert (await service.as_key(red, "PATCH", path, json={"spec": {"cpu": "2"}})).is_success
        assert (await service.as_key(red, "PATCH", path, json={"spec": {"priority": 40}})).is_success
        raised = await service.as_key(red, "PATCH", path, json={"spec": {"priority": 41}})
        assert said(raised)[:2] == (403, "forbidden")


async def test_a_priority_is_bounded_by_its_project() -> None:
    async with open_service() as service:
        red, everywhere = await two_projects(service)
        assert (await service.ask("GET", "/v1/projects/red")).json()["max_priority"] == 0
        for key in (red, everywhere):
            code, problem, detail = said(await wish(service, key, "high", "red", priority=2**31 - 1))
            assert (code, problem) == (403, "forbidden")
            assert "priority" in detail
            assert "limit 0" in detail
        assert (await wish(service, red, "low", "red", priority=-5)).is_success
        limit = await service.ask("PATCH", "/v1/projects/red", json={"max_priority": 10})
        assert limit.json()["max_priority"] == 10
        assert (await wish(service, red, "ten", "red", priority=10)).is_success
        assert (await wish(service, red, "eleven", "red", priority=11)).status_code == 403
        assert (await service.create("any", project="red", spec={"priority": 11})).is_success
        made = await service.ask("POST", "/v1/projects", json={"name": "green", "max_priority": 7})
        assert made.json()["max_priority"] == 7


async def test_a_gang_and_a_what_if_keep_to_the_limit_too() -> None:
    async with open_service() as service:
        red, _ = await two_projects(service)
        crew = {"project": "red", "name": "crew", "priority": 1}
        assert said(await service.as_key(red, "POST", "/v1/gangs", json=crew))[:2] == (403, "forbidden")
        assert (await service.as_key(red, "POST", "/v1/gangs", json={**crew, "priority": 0})).status_code == 201
        edited = await service.as_key(red, "PATCH", "/v1/gangs/red/crew", json={"priority": 1})
        assert said(edited)[:2] == (403, "forbidden")
        assert (await service.ask("PATCH", "/v1/gangs/red/crew", json={"priority": 9})).is_success
        assert (await service.as_key(red, "PATCH", "/v1/gangs/red/crew", json={"min_count": 2})).is_success
        spec = {**SMALL, "priority": 1}
        plan = await service.as_key(
            red, "POST", "/v1/plan", json={"vms": [{"project": "red", "name": "x", "spec": spec}]}
        )
        one = await service.as_key(red, "POST", "/v1/candidates", json={"project": "red", "spec": spec})
        assert said(plan)[:2] == said(one)[:2] == (403, "forbidden")


async def test_only_fleet_admin_sets_priority_limit_and_existing_vms_keep_theirs() -> None:
    async with open_service() as service:
        red, _ = await two_projects(service)
        own = await service.key("admin", "red")
        raised = await service.as_key(own, "PATCH", "/v1/projects/red", json={"max_priority": 9})
        assert said(raised)[:2] == (403, "forbidden")
        assert (await service.as_key(own, "PATCH", "/v1/projects/red", json={"description": "ours"})).is_success
        await service.ask("PATCH", "/v1/projects/red", json={"max_priority": 9})
        made = (await wish(service, red, "web", "red", priority=9)).json()["vm"]["id"]
        await service.ask("PATCH", "/v1/projects/red", json={"max_priority": 0})
        assert (await service.ask("GET", f"/v1/vms/{made}")).json()["spec"]["priority"] == 9
        assert (await service.as_key(red, "PATCH", f"/v1/vms/{made}", json={"spec": {"cpu": "2"}})).is_success
        negative = await service.ask("PATCH", "/v1/projects/red", json={"max_priority": -1})
        assert said(negative)[:2] == (400, "invalid_input")


async def test_decisions_and_what_ifs_do_not_name_vms_of_other_projects() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=4)
        red, _ = await two_projects(service)
        await service.ask("PATCH", "/v1/projects/red", json={"max_priority": 10})
        apart = term("anti_affinity", namespaces=["blue", "red"])
        await service.create("secret", project="blue", spec={"cpu": "3", **apart})
        await service.settle()
        waits = (await wish(service, red, "web", "red", cpu="2")).json()["vm"]["id"]
        await service.settle()
        spec = {**SMALL, "cpu": "2", "priority": 10}
        plan = {"vms": [{"project": "red", "name": "high", "spec": spec}]}
        asked = (
            ("GET", f"/v1/vms/{waits}/decision", None),
            ("POST", "/v1/plan", plan),
            ("POST", "/v1/candidates", {"project": "red", "spec": {**SMALL, "cpu": "2"}}),
        )
        for method, path, body in asked:
            ours = await service.as_key(red, method, path, json=body)
            theirs = await service.ask(method, path, json=body)
            assert ours.status_code == theirs.status_code == 200, ours.text
            assert "secret" in theirs.text, path
            assert "secret" not in ours.text, path
            assert "a VM of another project" in ours.text, path


async def test_caller_who_may_not_move_a_vm_learns_nothing_about_hosts() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        red, _ = await two_projects(service)
        viewer = await service.key("viewer", "red")
        theirs = (await service.create("theirs", project="blue")).json()["vm"]["id"]
        ours = (await wish(service, red, "ours", "red")).json()["vm"]["id"]
        for host in ("a", "nowhere"):
            hidden = await service.as_key(red, "POST", f"/v1/vms/{theirs}/migrate", json={"host": host})
            assert said(hidden)[:2] == (404, "not_found")
            refused = await service.as_key(viewer, "POST", f"/v1/vms/{ours}/migrate", json={"host": host})
            assert said(refused)[:2] == (403, "forbidden")
        unknown = await service.as_key(red, "POST", f"/v1/vms/{ours}/migrate", json={"host": "nowhere"})
        assert said(unknown)[:2] == (400, "invalid_input")
