"""A host tells so much and no more: what it says is written down, in the database of all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hostler.control.access import RateLimits
from hostler.control.access.limits import Rate
from hostler.control.store.history import log
from tests.control.api.service_in_process import GIB, InProcessService, open_service

FEW = RateLimits(
    changes=Rate(4, 3600), reads=Rate(6, 3600), failures=None
)  # so rarely that none is given back meanwhile


class Agent:
    """What speaks for a host."""

    def __init__(self, service: InProcessService, name: str, credential: str) -> None:
        self.service = service
        self.name = name
        self.epoch = 0
        self._told = 0
        self._headers = {"Authorization": f"Bearer {credential}"}

    async def register(self, **more: Any) -> httpx.Response:
        size = {"cpu_millis": 4000, "memory_bytes": 8 * GIB, "disk_bytes": 100 * GIB}
        said = {"boot": "boot", "agent": self.name, "version": "1", "driver": "fake", "capabilities": {}, "size": size}
        answer = await self._send("/agent/v1/register", {**said, **more})
        if answer.status_code == 200:
            self.epoch = answer.json()["epoch"]
        return answer

    async def report(self) -> httpx.Response:
        self._told += 1
        said = {"boot": "boot", "agent": self.name, "epoch": self.epoch, "sequence": self._told}
        return await self._send("/agent/v1/report", said)

    async def poll(self) -> httpx.Response:
        path = f"/agent/v1/orders?from=0&epoch={self.epoch}"
        return await self.service.client.get(path, headers=self._headers)

    async def _send(self, path: str, said: dict[str, Any]) -> httpx.Response:
        return await self.service.client.post(path, json=said, headers=self._headers)


async def joined(service: InProcessService, name: str) -> Agent:
    """Return the agent of a new host."""
    token = (await service.ask("POST", "/v1/tokens", json={"host_name": name})).json()["secret"]
    answer = await service.client.post("/agent/v1/join", json={"token": token, "name": name})
    return Agent(service, name, answer.json()["credential"])


async def test_host_beyond_its_rate_gets_retry_after() -> None:
    async with open_service(limits=FEW) as service:
        north, south = await joined(service, "north"), await joined(service, "south")
        registered = [await north.register(sequence=number) for number in range(1, 7)]
        assert [one.status_code for one in registered] == [200] * 4 + [429] * 2
        assert registered[-1].json()["detail"] == "more registrations than one host may send"
        reports = [await north.report() for _ in range(8)]
        assert [one.status_code for one in reports] == [200] * 6 + [429] * 2
        assert int(reports[-1].headers["Retry-After"]) > 0
        before = await service.database.read(log.head)
        assert (await north.register(sequence=7)).status_code == 429
        assert await service.database.read(log.head) == before, "it costs no write"
        assert ((await south.register()).status_code, (await south.report()).status_code) == (200, 200)


async def test_who_has_no_credential_is_counted_to_no_host() -> None:
    async with open_service(limits=FEW) as service:
        north = await joined(service, "north")
        stranger = Agent(service, "north", service.secret)
        assert {(await stranger.register()).status_code for _ in range(6)} == {401}
        assert (await north.register()).status_code == 200


async def test_a_host_asks_for_orders_so_often_and_reports_meanwhile() -> None:
    async with open_service(limits=FEW) as service:
        north, south = await joined(service, "north"), await joined(service, "south")
        for one in (north, south):
            assert (await one.register()).status_code == 200
        polls = [await north.poll() for _ in range(8)]
        assert [one.status_code for one in polls] == [200] * 6 + [429] * 2
        assert polls[-1].json()["detail"] == "more polls than one host may send"
        assert int(polls[-1].headers["Retry-After"]) > 0
        assert ((await north.report()).status_code, (await south.poll()).status_code) == (200, 200)


@pytest.mark.parametrize("path", ["/agent/v1/register", "/agent/v1/report"])
async def test_nothing_of_what_a_stranger_says_is_read(path: str) -> None:
    async with open_service() as service:
        read: list[bytes] = []

        async def said() -> AsyncIterator[bytes]:
            read.append(b"{")
            yield b"{"

        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {service.secret}"}
        refused = await service.client.post(path, content=said(), headers=headers)
        assert (refused.status_code, read) == (401, [])
