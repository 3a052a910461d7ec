"""All sessions of the dashboard are ended at once: by whom, for whom, and on other replicas."""

from __future__ import annotations

import asyncio
import time

import pytest

from hostler.control.access.principals import Principal
from hostler.control.access.sessions import open_session, renew_signing_secret, seal, signing_secret
from hostler.control.service import refresh_signing_secret
from tests.control.api.service_in_process import InProcessService, fake_random, open_service
from tests.control.postgres import PostgresServer
from tests.wait import GIVE_UP_S


async def log_in(service: InProcessService) -> str:
    """Return the cookie of a session of the administrator."""
    who = (await service.ask("GET", "/v1/whoami")).json()
    service.context.signing = await service.database.write(lambda one: signing_secret(one, time.time_ns(), fake_random))
    key = Principal(id=who["id"], name=who["name"], kind="key", role="admin", scopes=("*",))
    return seal(open_session(key, now_ns=time.time_ns(), random=fake_random), service.context.signing)


async def looks(service: InProcessService, cookie: str) -> int:
    headers = {"Authorization": "", "Cookie": f"hostler={cookie}"}
    return (await service.client.get("/v1/whoami", headers=headers)).status_code


async def test_a_session_is_over_when_all_were_ended_and_a_new_one_begins() -> None:
    async with open_service() as service:
        cookie = await log_in(service)
        assert await looks(service, cookie) == 200
        assert (await service.ask("DELETE", "/v1/sessions")).status_code == 204
        assert await looks(service, cookie) == 401
        assert await looks(service, await log_in(service)) == 200
        assert (await service.ask("GET", "/v1/whoami")).status_code == 200  # keys are as they were
        kinds = [one["kind"] for one in (await service.ask("GET", "/v1/events?limit=500")).json()["items"]]
        assert kinds.count("session.end") == 1


@pytest.mark.parametrize(("role", "project"), [("editor", ""), ("admin", "default")])
async def test_only_an_administrator_of_all_projects_ends_them(role: str, project: str) -> None:
    async with open_service() as service:
        cookie = await log_in(service)
        refused = await service.as_key(await service.key(role, project), "DELETE", "/v1/sessions")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert await looks(service, cookie) == 200


async def test_another_replica_learns_that_they_ended(postgres: PostgresServer) -> None:
    async with open_service(url=postgres.address(postgres.new_database())) as service:
        cookie, stopping = await log_in(service), asyncio.Event()
        following = asyncio.ensure_future(refresh_signing_secret(service.context, stopping, every_s=0.01))
        assert await looks(service, cookie) == 200
        renewed = await service.database.write(lambda one: renew_signing_secret(one, 1, fake_random))
        async with asyncio.timeout(GIVE_UP_S):
            while service.context.signing != renewed:
                await asyncio.sleep(0.01)
        assert await looks(service, cookie) == 401
        stopping.set()
        await following
