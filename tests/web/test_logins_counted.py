"""Logins are counted by address and by key; keys that open nothing any more are known to the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hostler.control.access import RateLimits
from hostler.control.access.limits import Rate
from hostler.control.store.history import log
from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service

FEW = RateLimits(changes=Rate(5, 3600), reads=None, failures=None)  # so rarely that none is given back meanwhile
ORIGIN = {"Origin": "http://localhost"}


@asynccontextmanager
async def door(limits: RateLimits = FEW) -> AsyncIterator[InProcessService]:
    async with open_service(limits=limits) as service:
        mount(service.app, service.context)
        yield service


async def log_in(service: InProcessService, key: str, address: str = "192.0.2.1") -> httpx.Response:
    transport = httpx.ASGITransport(app=service.app, raise_app_exceptions=False, client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=ORIGIN) as client:
        return await client.post("/login", data={"key": key})


async def test_one_address_logs_in_so_often_and_is_then_told_when_to_come_again() -> None:
    async with door() as service:
        keys = [await service.key("viewer") for _ in range(4)]
        answers = [await log_in(service, key) for key in (*keys, *keys)]
        assert [one.status_code for one in answers] == [303] * 5 + [429] * 3
        assert int(answers[-1].headers["Retry-After"]) > 0
        assert "more logins than one address may send" in answers[-1].text
        before = await service.database.read(log.head)
        assert (await log_in(service, keys[0])).status_code == 429
        assert await service.database.read(log.head) == before, "it costs no write"
        assert (await log_in(service, keys[0], "192.0.2.2")).status_code == 303


async def test_one_key_logs_in_so_often_from_wherever() -> None:
    async with door() as service:
        key = await service.key("viewer")
        answers = [await log_in(service, key, f"192.0.2.{at}") for at in range(7)]
        assert [one.status_code for one in answers] == [303] * 5 + [429] * 2
        assert int(answers[-1].headers["Retry-After"]) > 0


async def test_wrong_keys_count_to_the_logins_of_an_address_too() -> None:
    async with door() as service:
        answers = [await log_in(service, "nonsense") for _ in range(6)]
        assert [one.status_code for one in answers] == [401] * 5 + [429]


async def test_a_login_with_a_revoked_key_is_gathered_for_the_audit() -> None:
    async with door() as service:
        key = await service.key("viewer")
        identity = (await service.as_key(key, "GET", "/v1/whoami")).json()["id"]
        assert (await service.ask("DELETE", f"/v1/keys/{identity}")).is_success
        assert (await log_in(service, key)).status_code == 401
        assert (await log_in(service, "nonsense")).status_code == 401
        [refused] = service.context.refusals.take()
        assert (refused.actor, refused.text.partition(":")[0]) == (f"key:{identity}", "POST /login")
        assert key not in refused.text
