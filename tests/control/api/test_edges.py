"""The edges of REST: line ends in names, cursors of other lists, too many labels, heads of streams."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from hostler.control.api.app import ALL_ROUTES
from hostler.control.api.description import describe
from tests.control.api.service_in_process import InProcessService, open_service

SPEC = {"cpu": "1", "memory": "1Gi"}
NAMED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/vms", {"name": "web\n", "spec": SPEC}),
    ("/v1/vms", {"name": "web", "project": "default\n", "spec": SPEC}),
    ("/v1/vms", {"name": "web", "spec": {**SPEC, "gang": "crew\n"}}),
    ("/v1/vms", {"name": "web", "spec": {**SPEC, "labels": {"tier\n": "x"}}}),
    ("/v1/vms", {"name": "web", "spec": {**SPEC, "network": {"kind": "bridge", "bridge": "br0\n"}}}),
    ("/v1/vms", {"name": "web", "spec": {**SPEC, "disks": [{"size": "1Gi", "storage": "san\n"}]}}),
    ("/v1/projects", {"name": "team\n"}),
    ("/v1/quotas", {"project": "default\n"}),
    ("/v1/gangs", {"name": "crew\n"}),
    ("/v1/gangs", {"name": "crew", "project": "default\n"}),
    ("/v1/reservations", {"name": "room\n", "amounts": {"cpu": 1}}),
    ("/v1/reservations", {"name": "room", "project": "default\n", "amounts": {"cpu": 1}}),
    ("/v1/keys", {"name": "ci\n", "role": "viewer"}),
    ("/v1/tokens", {"host_name": "alpha\n"}),
    ("/v1/plan", {"vms": [{"name": "web\n", "spec": SPEC}]}),
    ("/v1/plan", {"vms": [{"spec": SPEC}], "hosts": [{"name": "h\n", "cpu": 1, "memory": "1Gi"}]}),
    ("/v1/candidates", {"project": "default\n", "spec": SPEC}),
]


async def test_no_name_ends_in_a_line_end() -> None:
    async with open_service() as service:
        for path, body in NAMED:
            answer = await service.ask("POST", path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input"), (path, body, answer.text)


def test_patterns_in_the_description_are_those_of_javascript_too() -> None:
    text = msgspec.json.encode(describe(ALL_ROUTES)).decode()
    patterns = {msgspec.json.decode(f'"{found}"') for found in re.findall(r'"pattern":"((?:[^"\\]|\\.)*)"', text)}
    assert any("(?!\\n)" in pattern for pattern in patterns)
    for pattern in patterns:
        assert not re.search(r"\\[AZz]|\(\?[P#<]", pattern), pattern


async def two_of_each(service: InProcessService) -> None:
    await service.add_hosts("a", "b")
    for number in (1, 2):
        assert (await service.create(f"web-{number}")).status_code == 202
        await service.key("viewer")
        assert (await service.ask("POST", "/v1/tokens", json={})).status_code == 201


async def test_a_cursor_is_good_for_its_own_list_only() -> None:
    lists = ["/v1/vms", "/v1/hosts", "/v1/operations", "/v1/keys", "/v1/tokens"]

    async with open_service() as service:
        await two_of_each(service)
        for mine in lists:
            cursor = (await service.ask("GET", mine, params={"limit": 1})).json()["next"]
            assert cursor, mine
            for path in lists:
                answer = await service.ask("GET", path, params={"limit": 1, "after": cursor})
                if path == mine:
                    assert len(answer.json()["items"]) == 1
                else:
                    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor"), (mine, path)


async def test_a_cursor_without_its_list_is_refused() -> None:
    async with open_service() as service:
        old = "WzEsImExYjJjM2Q0Il0"  # [1, an id], as they were once
        answer = await service.ask("GET", "/v1/vms", params={"after": old})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")


@pytest.mark.parametrize("path", ["/v1/vms", "/v1/hosts"])
async def test_a_list_takes_so_many_labels_and_no_more(path: str) -> None:
    async with open_service() as service:
        labels = [f"k{number}=v" for number in range(1500)]
        assert (await service.ask("GET", path, params={"label": labels[:16]})).status_code == 200
        for count in (17, 1500):
            answer = await service.ask("GET", path, params={"label": labels[:count]})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
            assert "label" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/events", "/v1/events?news=true"])
async def test_who_asks_for_the_head_of_a_stream_gets_that_alone(path: str) -> None:
    async with open_service() as service:
        answer = await service.ask("HEAD", path, headers={"Accept": "text/event-stream"})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "content-length" not in answer.headers
        assert service.context.streams.count == 0
