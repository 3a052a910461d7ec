"""Events name who did something and what was changed, and tell of hosts that are gone."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.control.services.event_texts import resize_text
from hostler.control.vms.spec import VmSpec
from tests.control.api.service_in_process import InProcessService, open_service

SMALL = VmSpec(cpu="2", memory="4Gi")


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (VmSpec(cpu="1", memory="4Gi"), "asked to resize web: cpu 2 → 1"),
        (VmSpec(cpu="3", memory="8Gi"), "asked to resize web: cpu 2 → 3, memory 4Gi → 8Gi"),
        (VmSpec(cpu="2", memory="4Gi", host_name="a"), "asked to resize web: host name"),
        (VmSpec(cpu="2", memory="1Gi", labels={"a": "b"}), "asked to resize web: memory 4Gi → 1Gi, labels"),
    ],
)
def test_a_resize_differs_from_what_to_what(after: VmSpec, text: str) -> None:
    assert resize_text("web", SMALL, after) == text


async def told(service: InProcessService, secret: str = "", query: str = "") -> list[dict[str, Any]]:
    path = f"/v1/events?limit=500{query}"
    answer = await (service.as_key(secret, "GET", path) if secret else service.ask("GET", path))
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_a_resize_and_a_deletion_leave_their_amounts_in_the_events() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        identity = (await service.create("web", spec={"cpu": "2", "memory": "4Gi"})).json()["vm"]["id"]
        await service.settle()
        await service.ask("PATCH", f"/v1/vms/{identity}", json={"spec": {"cpu": "1"}})
        await service.settle()
        await service.ask("DELETE", f"/v1/vms/{identity}")
        texts = [one["text"] for one in await told(service)]
        assert "asked to resize web: cpu 2 → 1" in texts
        assert "web takes cpu 1, memory 4Gi of a" in texts
        assert "web is to leave a" in texts


async def test_keys_are_named_in_their_project_and_to_those_who_may_list_them() -> None:
    async with open_service() as service:
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        robot = await service.key("editor", "red", name="robot")
        viewer = await service.key("viewer", "red", name="eyes")
        wish = {"name": "web", "project": "red", "spec": {"cpu": "1", "memory": "1Gi"}}
        assert (await service.as_key(robot, "POST", "/v1/vms", json=wish)).status_code == 202
        boss = await service.key("admin", name="boss")
        await service.as_key(boss, "POST", "/v1/vms", json=wish | {"name": "db"})
        by = {one["text"]: one["by"] for one in await told(service, viewer)}
        assert by["asked to create web"] == "key robot"
        assert by["asked to create db"].startswith("key:"), "who is not of the project is not named there"
        all_of_them = {one["text"]: one["by"] for one in await told(service)}
        assert (all_of_them["asked to create web"], all_of_them["asked to create db"]) == ("key robot", "key boss")


async def test_a_host_that_is_gone_is_still_told_of_by_its_name_and_its_id() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        identity = (await service.ask("GET", "/v1/hosts/a")).json()["id"]
        assert (await service.ask("DELETE", "/v1/hosts/a?confirm=a")).status_code == 204
        for word in ("a", identity):
            found = await told(service, query=f"&host={word}")
            assert {one["subject"] for one in found} == {identity}
            assert found[-1]["text"] in ("host a left", "deleted a")
        unknown = await service.ask("GET", "/v1/events?host=c")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
        editor = await service.key("admin", "default")
        assert (await service.as_key(editor, "GET", "/v1/events?host=a")).status_code == 403
