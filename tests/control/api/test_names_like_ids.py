"""Names and ids: an id means what has it, and no name has the form of one."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from hostler.agent.messages import Join
from hostler.control.store import hosts
from hostler.control.store.hosts import HostRow
from tests.control.api.house import open_house
from tests.control.api.test_fleet import joined, send

FORMS = [uuid.UUID(int=2**127 + 5).hex, str(uuid.UUID(int=2**126 + 7)), uuid.UUID(int=2**128 - 9).hex.upper()]


def test_a_host_is_found_by_its_id_though_another_has_that_name() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("alpha")
            impostor = HostRow(id="id-x", name="id-alpha", state="joined", created_ns=1, updated_ns=1)
            await house.database.write(lambda connection: hosts.insert(connection, impostor))
            assert (await house.ask("GET", "/v1/hosts/id-alpha")).json()["name"] == "alpha"
            assert (await house.ask("POST", "/v1/hosts/id-alpha/cordon")).json()["name"] == "alpha"
            assert (await house.ask("GET", "/v1/hosts/alpha")).json()["id"] == "id-alpha"

    asyncio.run(story())


@pytest.mark.parametrize("name", FORMS)
def test_nobody_joins_under_what_could_be_an_id(name: str) -> None:
    async def story() -> None:
        async with open_house() as house:
            token = (await house.ask("POST", "/v1/tokens")).json()["secret"]
            refused = await send(house, "", "/agent/v1/join", Join(token=token, name=name))
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
            assert "id" in refused.json()["hint"]
            named = await house.ask("POST", "/v1/tokens", json={"host_name": name})
            assert named.status_code == 400
            used = await send(house, "", "/agent/v1/join", Join(token=token, name="alpha"))
            assert used.status_code == 200, "the token was not used up"

    asyncio.run(story())


@pytest.mark.parametrize("name", FORMS)
def test_no_vm_is_named_like_an_id(name: str) -> None:
    async def story() -> None:
        async with open_house() as house:
            refused = await house.create(name)
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
            assert (await house.ask("GET", "/v1/vms")).json()["items"] == []

    asyncio.run(story())


def test_names_with_as_many_other_letters_are_names() -> None:
    async def story() -> None:
        async with open_house() as house:
            name = "g" * 32
            assert (await joined(house, name)).host
            assert (await house.create(name)).status_code == 202

    asyncio.run(story())
