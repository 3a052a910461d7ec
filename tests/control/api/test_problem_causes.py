"""The cause in a problem: what programs act on, beside the sentence that people read."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from hostler.control.access.secrets import make_secret
from hostler.control.store.errors import NotFoundError, own_copy
from tests.control.api.service_in_process import SMALL, InProcessService, open_service
from tests.control.api.test_cancelled_moves import moving


def told(answer: httpx.Response) -> tuple[int, str, dict[str, str] | None]:
    problem = answer.json()
    return answer.status_code, problem["code"], problem["cause"]


def cause(code: str, kind: str, name: str) -> dict[str, str]:
    return {"code": code, "kind": kind, "name": name}


async def create_projects(service: InProcessService, *names: str) -> None:
    for name in names:
        assert (await service.ask("POST", "/v1/projects", json={"name": name})).status_code == 201


async def test_protected_vm_is_named() -> None:
    async with open_service() as service:
        made = await service.create("db", protected=True)
        refused = await service.ask("DELETE", f"/v1/vms/{made.json()['vm']['id']}")
        assert told(refused) == (409, "deletion_protected", cause("protected", "vm", "db"))


async def test_moving_vm_is_named() -> None:
    async with open_service() as service:
        vm = (await moving(service))["vm"]
        refused = await service.ask("POST", f"/v1/vms/{vm['id']}/migrate", json={})
        assert told(refused) == (409, "migrating", cause("moving", "vm", vm["name"]))


async def test_vm_pinned_to_host_is_named() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        made = (await service.create("x", spec={"host_name": "a"})).json()["vm"]["id"]
        await service.settle()
        refused = await service.ask("POST", f"/v1/vms/{made}/migrate", json={"host": "b"})
        assert told(refused) == (400, "not_movable", cause("pinned", "vm", "x"))


async def test_project_of_key_is_named_only_if_another_was_meant() -> None:
    async with open_service() as service:
        await create_projects(service, "red", "blue")
        red, viewer = await service.key("editor", "red"), await service.key("viewer", "red")
        body = {"name": "x", "project": "blue", "spec": SMALL}
        refused = await service.as_key(red, "POST", "/v1/vms", json=body)
        assert told(refused) == (403, "forbidden", cause("other_project", "project", "red"))
        assert told(await service.as_key(viewer, "POST", "/v1/vms", json=body)) == (403, "forbidden", None)
        made = await service.as_key(red, "POST", "/v1/projects", json={"name": "green"})
        assert told(made) == (403, "forbidden", None)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/vms", {"name": "x", "project": "default", "spec": {**SMALL, "host_name": "nope"}}),
        ("/v1/plan", {"vms": [{"project": "default", "name": "x", "spec": SMALL}], "without_hosts": ["nope"]}),
    ],
)
async def test_missing_host_of_request_is_named(path: str, body: dict[str, Any]) -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        refused = await service.ask("POST", path, json=body)
        assert told(refused) == (400, "invalid_input", cause("missing", "host", "nope"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/vms/x", "vm"),
        ("/v1/hosts/x", "host"),
        ("/v1/projects/x", "project"),
        ("/v1/quotas/x", "quota"),
        ("/v1/gangs/default/x", "gang"),
        ("/v1/reservations/default/x", "reservation"),
        ("/v1/keys/x", "key"),
        ("/v1/tokens/x", "token"),
    ],
)
async def test_missing_thing_is_reported_by_kind_and_name(path: str, kind: str) -> None:
    async with open_service() as service:
        assert told(await service.ask("GET", path)) == (404, "not_found", cause("missing", kind, "x"))


async def test_path_that_leads_nowhere_has_no_cause() -> None:
    async with open_service() as service:
        assert told(await service.ask("GET", "/v1/nothing")) == (404, "not_found", None)


async def test_secret_in_place_of_name_is_redacted() -> None:
    secret = make_secret("key", lambda size: b"7" * size).text
    async with open_service() as service:
        refused = await service.ask("GET", f"/v1/vms/{secret}")
        assert refused.json()["cause"]["kind"] == "vm"
        assert secret not in refused.json()["cause"]["name"]


def test_copy_of_error_keeps_cause() -> None:
    copy = own_copy(NotFoundError.of("vm", "x"))
    assert isinstance(copy, NotFoundError)
    assert copy.cause == ("missing", "vm", "x")


async def test_one_vm_is_called_one_vm_when_it_keeps_a_host_or_gang() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        assert (await service.ask("POST", "/v1/gangs", json={"name": "crew"})).status_code == 201
        assert (await service.create("web", spec={"gang": "crew"})).status_code == 202
        await service.settle()
        host = await service.ask("DELETE", "/v1/hosts/a", params={"confirm": "a"})
        assert host.json()["detail"] == "host a has 1 VM"
        gang = await service.ask("DELETE", "/v1/gangs/default/crew")
        assert gang.json()["detail"] == "gang crew has 1 VM"
