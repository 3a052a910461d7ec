"""Keys that a restore brought back, over REST: rejected, listed, and confirmed by an administrator of all projects."""

from __future__ import annotations

import msgspec

from hostler.control.access.keys import KeyBody
from hostler.control.access.secrets import parse_secret
from hostler.control.store import Connection
from hostler.control.store.rows import keys
from tests.control.api.service_in_process import InProcessService, open_service


async def unconfirmed(service: InProcessService, role: str = "editor", project: str = "") -> tuple[str, str]:
    """Return the id and the secret of a key, as a restore leaves it."""
    secret = await service.key(role, project)
    identity = parse_secret(secret, "key").id

    def work(connection: Connection) -> None:
        row = keys.find_key(connection, identity)
        assert row is not None
        keys.save_body(connection, row, msgspec.json.encode(KeyBody(unconfirmed_ns=10**18)))

    await service.database.write(work)
    return identity, secret


async def test_unconfirmed_key_is_rejected_and_listed_until_confirmed() -> None:
    """The caller learns no more than of a revoked key; the audit names who confirmed it."""

    async with open_service() as service:
        identity, secret = await unconfirmed(service)
        refused = await service.as_key(secret, "GET", "/v1/whoami")
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert "confirm" not in refused.text
        shown = (await service.ask("GET", f"/v1/keys/{identity}")).json()
        assert shown["unconfirmed_since"] == "2001-09-09T01:46:40.000000Z"
        confirmed = await service.ask("POST", f"/v1/keys/{identity}/confirm")
        assert (confirmed.status_code, confirmed.json()["unconfirmed_since"]) == (200, None)
        assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 200
        assert (await service.ask("POST", f"/v1/keys/{identity}/confirm")).status_code == 200
        events = (await service.ask("GET", "/v1/events", params={"subject": identity})).json()["items"]
        assert "key.confirm" in [event["kind"] for event in events]


async def test_unconfirmed_key_is_confirmed_by_fleet_administrators_only() -> None:
    """Neither itself, nor an administrator of its project, nor an editor confirms it."""

    async with open_service() as service:
        identity, secret = await unconfirmed(service, "admin", "default")
        path = f"/v1/keys/{identity}/confirm"
        assert (await service.as_key(secret, "POST", path)).status_code == 401
        for role, project in (("admin", "default"), ("editor", "")):
            refused = await service.as_key(await service.key(role, project), "POST", path)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 401
        assert (await service.ask("POST", "/v1/keys/nobody/confirm")).status_code == 404
