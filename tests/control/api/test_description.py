"""The description of the service: the file is the served one, and needs nothing from elsewhere."""

from __future__ import annotations

import asyncio
import json

from hostler.control.api.app import ALL_ROUTES
from hostler.control.api.description import describe
from tests.control.api.house import open_house
from tools.openapi import PLACE, written


def test_the_file_in_the_repository_is_the_served_description() -> None:
    async def scenario() -> bytes:
        async with open_house() as house:
            return (await house.ask("GET", "/openapi.json")).content

    served = json.loads(asyncio.run(scenario()))
    assert served == json.loads(PLACE.read_bytes())
    assert PLACE.read_bytes() == written(), "run: python -m tools.openapi"


def test_operations_have_ids_of_their_own() -> None:
    paths = describe(ALL_ROUTES)["paths"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(names) == len(set(names)) == len(ALL_ROUTES)


def test_the_page_needs_nothing_from_elsewhere() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            page = await house.client.get("/docs", headers={"Authorization": ""})
            assert page.status_code == 200
            assert "<script" not in page.text
            assert "http://" not in page.text
            assert "https://" not in page.text
            assert "/v1/vms/{id}/decision" in page.text

    asyncio.run(scenario())
