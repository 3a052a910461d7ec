"""The description of the service: the file is the served one, and needs nothing from elsewhere."""

from __future__ import annotations

import asyncio
import json
import re

from hostler.control.api.app import ALL_ROUTES
from hostler.control.api.description import describe
from tests.control.api.service_in_process import open_service
from tools.openapi import PLACE, openapi_text


def test_the_file_in_the_repository_is_the_served_description() -> None:
    async def scenario() -> bytes:
        async with open_service() as service:
            return (await service.ask("GET", "/openapi.json")).content

    served = json.loads(asyncio.run(scenario()))
    assert served == json.loads(PLACE.read_bytes())
    assert PLACE.read_bytes() == openapi_text(), "run: python -m tools.openapi"


def test_operations_have_ids_of_their_own() -> None:
    paths = describe(ALL_ROUTES)["paths"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(names) == len(set(names)) == len(ALL_ROUTES)


async def test_page_has_contents_and_headed_tables() -> None:
    async with open_service() as service:
        page = (await service.client.get("/docs")).text
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links <= set(re.findall(r'id="([^"]+)"', page)), "every link leads somewhere"
    contents = re.findall(r'<nav aria-label="Contents">(.*?)</nav>', page)[0]
    for tag in dict.fromkeys(route.tag for route in ALL_ROUTES):
        assert f'href="#tag-{tag}"' in contents
    assert page.count("<table>") == page.count("<thead>") > 100
    assert '<span class="method GET">GET</span><span class="path">/v1/vms/{id}/decision</span>' in page
    assert '<h2 id="tag-vms">VMs</h2>' in page
    assert "<title>Hostler control plane</title>" in page
    assert 'href="/"' in page


async def test_the_page_needs_nothing_from_elsewhere() -> None:
    async with open_service() as service:
        page = await service.client.get("/docs", headers={"Authorization": ""})
        assert page.status_code == 200
        assert "<script" not in page.text
        assert "http://" not in page.text
        assert "https://" not in page.text
        assert "/v1/vms/{id}/decision" in page.text
