"""Keys that end between the head of a request and the end of its body: what they ask for is not done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from hostler.control.access.secrets import parse_secret
from tests.control.api.house import House, open_house

SPEC = b'{"cpu": "1", "memory": "1Gi"}'
JSON = {"Content-Type": "application/json"}


async def slowly(meanwhile: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    """Send a wish for a VM in two halves, and let something happen between them."""
    yield b'{"name": "late", "spec": '
    await meanwhile()
    yield SPEC + b"}"


async def revoke(house: House, secret: str) -> None:
    """End a key at this very service."""
    identity = parse_secret(secret, "key").id
    assert (await house.ask("DELETE", f"/v1/keys/{identity}")).status_code == 200
    assert (await house.as_key(secret, "GET", "/v1/whoami")).status_code == 401


async def names(house: House) -> list[str]:
    """Return the names of all VMs."""
    return [vm["name"] for vm in (await house.ask("GET", "/v1/vms")).json()["items"]]


def test_a_key_that_is_revoked_before_the_body_is_there_creates_nothing() -> None:
    async def story() -> None:
        async with open_house() as house:
            secret = await house.key("editor")
            body = slowly(lambda: revoke(house, secret))
            refused = await house.as_key(secret, "POST", "/v1/vms", content=body, headers=JSON)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
            assert await names(house) == []

    asyncio.run(story())


def test_a_key_that_expires_before_the_body_is_there_creates_nothing() -> None:
    async def story() -> None:
        async with open_house() as house:
            secret = await house.key("editor", ttl_s=3600)

            async def an_hour_later() -> None:
                house.context.clock = lambda: time.time_ns() + 3601 * 10**9

            body = slowly(an_hour_later)
            refused = await house.as_key(secret, "POST", "/v1/vms", content=body, headers=JSON)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
            assert await names(house) == []

    asyncio.run(story())


def test_a_key_that_stays_good_may_be_slow() -> None:
    async def story() -> None:
        async with open_house() as house:
            secret = await house.key("editor")
            body = slowly(lambda: house.as_key(secret, "GET", "/v1/whoami"))
            assert (await house.as_key(secret, "POST", "/v1/vms", content=body, headers=JSON)).status_code == 202
            assert await names(house) == ["late"]

    asyncio.run(story())
