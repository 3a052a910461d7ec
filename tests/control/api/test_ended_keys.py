"""Keys that ended while their bearer was believed, by another replica or before the body came: no rights by them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hostler.control.access import keys as access_keys
from hostler.control.access.principals import Principal
from hostler.control.access.secrets import parse_secret
from hostler.control.store import Connection
from hostler.control.store.rows import keys
from tests.control.api.service_in_process import InProcessService, fake_random, open_service

ROOT = Principal(id="root", role="admin")
MAKING: list[tuple[str, str, Any]] = [
    ("POST", "/v1/keys", {"name": "child", "role": "admin"}),
    ("POST", "/v1/keys/{own}/rotate", {"overlap_s": 60}),
    ("POST", "/v1/keys/{first}/rotate", {"overlap_s": 60}),
    ("DELETE", "/v1/keys/{first}", None),
    ("POST", "/v1/keys/{first}/confirm", None),
    ("POST", "/v1/tokens", {"ttl_s": 60}),
    ("DELETE", "/v1/sessions", None),
]
PATHS = [f"{method} {path}" for method, path, _ in MAKING]


async def believed(service: InProcessService) -> str:
    """Return the secret of an administrator's key that this replica has just seen; time stands from then on."""
    now = service.context.clock()
    service.context.clock = lambda: now
    secret = await service.key("admin")
    assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 200
    return secret


async def revoked_elsewhere(service: InProcessService, secret: str) -> None:
    """End a key as another replica does: nobody tells this one."""
    identity = parse_secret(secret, "key").id

    def work(connection: Connection) -> None:
        access_keys.revoke_key(connection, identity, by=ROOT, now_ns=service.context.clock())

    await service.database.write(work)


async def rights(service: InProcessService) -> tuple[Any, Any, bytes]:
    """Return all that a caller could make without permission, and when keys were used."""

    def work(connection: Connection) -> tuple[Any, Any]:
        ends = {row.id: row.revoked_ns for row in keys.list_keys(connection).items}
        return ends, keys.list_tokens(connection).items

    return (*await service.database.read(work), service.context.signing)


@pytest.mark.parametrize(("method", "path", "body"), MAKING, ids=PATHS)
async def test_a_key_that_was_revoked_elsewhere_makes_nothing_that_outlives_it(
    url: str, method: str, path: str, body: object
) -> None:
    async with open_service(url=url) as service:
        secret = await believed(service)
        await revoked_elsewhere(service, secret)
        assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 200, "it is still believed here"
        before = await rights(service)
        there = path.format(own=parse_secret(secret, "key").id, first=parse_secret(service.secret, "key").id)
        refused = await service.as_key(secret, method, there, json=body)
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert await rights(service) == before
        assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 401, "now it is known here too"


async def test_a_key_that_was_revoked_while_its_body_was_on_the_way_makes_no_key() -> None:
    async with open_service() as service:
        secret = await believed(service)

        async def slowly() -> AsyncIterator[bytes]:
            yield b'{"name": "child", '
            await revoked_elsewhere(service, secret)
            yield b'"role": "admin"}'

        headers = {"Content-Type": "application/json"}
        before = set((await rights(service))[0])
        refused = await service.as_key(secret, "POST", "/v1/keys", content=slowly(), headers=headers)
        assert refused.status_code == 401
        assert set((await rights(service))[0]) == before


async def test_a_key_that_gives_way_to_another_makes_keys_until_it_ends() -> None:
    async with open_service() as service:
        secret = await believed(service)
        own = parse_secret(secret, "key").id
        assert (await service.as_key(secret, "POST", f"/v1/keys/{own}/rotate", json={"overlap_s": 600})).status_code
        body = {"name": "child", "role": "viewer", "ttl_s": 60}
        assert (await service.as_key(secret, "POST", "/v1/keys", json=body)).status_code == 201


async def test_a_key_that_was_rotated_elsewhere_makes_no_key_that_outlives_it() -> None:
    async with open_service() as service:
        secret = await believed(service)
        own, now_ns = parse_secret(secret, "key").id, service.context.clock()
        await service.database.write(
            lambda one: access_keys.rotate_key(
                one, own, by=ROOT, now_ns=now_ns, random=fake_random, overlap_s=access_keys.MOST_OVERLAP_S
            )
        )
        refused = await service.as_key(secret, "POST", "/v1/keys", json={"name": "child", "role": "viewer"})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
