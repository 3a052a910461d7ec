"""Keys that end between the head of a request and the end of its body: what they ask for is not done."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable

from hostler.control.access.secrets import parse_secret
from tests.control.api.service_in_process import InProcessService, open_service

SPEC = b'{"cpu": "1", "memory": "1Gi"}'
JSON = {"Content-Type": "application/json"}


async def slowly(meanwhile: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    """Send a wish for a VM in two halves, and let something happen between them."""
    yield b'{"name": "late", "spec": '
    await meanwhile()
    yield SPEC + b"}"


async def revoke(service: InProcessService, secret: str) -> None:
    """End a key at this very service."""
    identity = parse_secret(secret, "key").id
    assert (await service.ask("DELETE", f"/v1/keys/{identity}")).status_code == 200
    assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 401


async def names(service: InProcessService) -> list[str]:
    """Return the names of all VMs."""
    return [vm["name"] for vm in (await service.ask("GET", "/v1/vms")).json()["items"]]


async def test_a_key_that_is_revoked_before_the_body_is_there_creates_nothing() -> None:
    async with open_service() as service:
        secret = await service.key("editor")
        body = slowly(lambda: revoke(service, secret))
        refused = await service.as_key(secret, "POST", "/v1/vms", content=body, headers=JSON)
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert await names(service) == []


async def test_a_key_that_expires_before_the_body_is_there_creates_nothing() -> None:
    async with open_service() as service:
        secret = await service.key("editor", ttl_s=3600)

        async def an_hour_later() -> None:
            service.context.clock = lambda: time.time_ns() + 3601 * 10**9

        body = slowly(an_hour_later)
        refused = await service.as_key(secret, "POST", "/v1/vms", content=body, headers=JSON)
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert await names(service) == []


async def test_a_key_that_stays_good_may_be_slow() -> None:
    async with open_service() as service:
        secret = await service.key("editor")
        body = slowly(lambda: service.as_key(secret, "GET", "/v1/whoami"))
        assert (await service.as_key(secret, "POST", "/v1/vms", content=body, headers=JSON)).status_code == 202
        assert await names(service) == ["late"]
