"""Names and ids: an id means what has it, and no name has the form of one."""

from __future__ import annotations

import uuid

import pytest

from hostler.agent.messages import Join
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from tests.control.api.service_in_process import open_service
from tests.control.api.test_fleet import joined, send

FORMS = [uuid.UUID(int=2**127 + 5).hex, str(uuid.UUID(int=2**126 + 7)), uuid.UUID(int=2**128 - 9).hex.upper()]


async def test_a_host_is_found_by_its_id_though_another_has_that_name() -> None:
    async with open_service() as service:
        await service.add_hosts("alpha")
        impostor = HostRow(id="id-x", name="id-alpha", state="joined", created_ns=1, updated_ns=1)
        await service.database.write(lambda connection: hosts.insert(connection, impostor))
        assert (await service.ask("GET", "/v1/hosts/id-alpha")).json()["name"] == "alpha"
        assert (await service.ask("POST", "/v1/hosts/id-alpha/cordon")).json()["name"] == "alpha"
        assert (await service.ask("GET", "/v1/hosts/alpha")).json()["id"] == "id-alpha"


@pytest.mark.parametrize("name", FORMS)
async def test_nobody_joins_under_what_could_be_an_id(name: str) -> None:
    async with open_service() as service:
        token = (await service.ask("POST", "/v1/tokens")).json()["secret"]
        refused = await send(service, "", "/agent/v1/join", Join(token=token, name=name))
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
        assert "id" in refused.json()["hint"]
        named = await service.ask("POST", "/v1/tokens", json={"host_name": name})
        assert named.status_code == 400
        used = await send(service, "", "/agent/v1/join", Join(token=token, name="alpha"))
        assert used.status_code == 200, "the token was not used up"


@pytest.mark.parametrize("name", FORMS)
async def test_no_vm_is_named_like_an_id(name: str) -> None:
    async with open_service() as service:
        refused = await service.create(name)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
        assert (await service.ask("GET", "/v1/vms")).json()["items"] == []


async def test_names_with_as_many_other_letters_are_names() -> None:
    async with open_service() as service:
        name = "g" * 32
        assert (await joined(service, name)).host
        assert (await service.create(name)).status_code == 202


async def test_vm_is_found_by_project_and_name_as_by_id() -> None:
    async with open_service() as service:
        made = (await service.create("web")).json()["vm"]["id"]
        await service.caught_up()
        by_name = await service.ask("GET", "/v1/projects/default/vms/web")
        assert by_name.status_code == 200, by_name.text
        assert by_name.json()["id"] == made
        assert by_name.headers["etag"] == (await service.ask("GET", f"/v1/vms/{made}")).headers["etag"]
        for path in ("/v1/projects/default/vms/db", "/v1/projects/other/vms/web"):
            missing = await service.ask("GET", path)
            assert (missing.status_code, missing.json()["code"]) == (404, "not_found"), path
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        stranger = await service.key("viewer", "red")
        assert (await service.as_key(stranger, "GET", "/v1/projects/default/vms/web")).status_code == 404
