"""All sessions of the dashboard are ended at once: by whom, for whom, and on other replicas."""

from __future__ import annotations

import asyncio
import time

import pytest

from hostler.control.access.principals import Principal
from hostler.control.access.sessions import open_session, renew_signing_secret, seal, signing_secret
from hostler.control.api.signing import follow_signing
from tests.control.api.house import House, fake_random, open_house
from tests.control.postgres import PostgresServer
from tests.wait import GIVE_UP_S


async def log_in(house: House) -> str:
    """Return the cookie of a session of the administrator."""
    who = (await house.ask("GET", "/v1/whoami")).json()
    house.context.signing = await house.database.write(lambda one: signing_secret(one, time.time_ns(), fake_random))
    key = Principal(id=who["id"], name=who["name"], kind="key", role="admin", scopes=("*",))
    return seal(open_session(key, now_ns=time.time_ns(), random=fake_random), house.context.signing)


async def looks(house: House, cookie: str) -> int:
    headers = {"Authorization": "", "Cookie": f"hostler={cookie}"}
    return (await house.client.get("/v1/whoami", headers=headers)).status_code


def test_a_session_is_over_when_all_were_ended_and_a_new_one_begins() -> None:
    async def story() -> None:
        async with open_house() as house:
            cookie = await log_in(house)
            assert await looks(house, cookie) == 200
            assert (await house.ask("DELETE", "/v1/sessions")).status_code == 204
            assert await looks(house, cookie) == 401
            assert await looks(house, await log_in(house)) == 200
            assert (await house.ask("GET", "/v1/whoami")).status_code == 200  # keys are as they were
            kinds = [one["kind"] for one in (await house.ask("GET", "/v1/events?limit=500")).json()["items"]]
            assert kinds.count("session.end") == 1

    asyncio.run(story())


@pytest.mark.parametrize(("role", "project"), [("editor", ""), ("admin", "default")])
def test_only_an_administrator_of_all_projects_ends_them(role: str, project: str) -> None:
    async def story() -> None:
        async with open_house() as house:
            cookie = await log_in(house)
            refused = await house.as_key(await house.key(role, project), "DELETE", "/v1/sessions")
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            assert await looks(house, cookie) == 200

    asyncio.run(story())


def test_another_replica_learns_that_they_ended(postgres: PostgresServer) -> None:
    async def story() -> None:
        async with open_house(url=postgres.address(postgres.new_database())) as house:
            cookie, stopping = await log_in(house), asyncio.Event()
            following = asyncio.ensure_future(follow_signing(house.context, stopping, every_s=0.01))
            assert await looks(house, cookie) == 200
            renewed = await house.database.write(lambda one: renew_signing_secret(one, 1, fake_random))
            async with asyncio.timeout(GIVE_UP_S):
                while house.context.signing != renewed:
                    await asyncio.sleep(0.01)
            assert await looks(house, cookie) == 401
            stopping.set()
            await following

    asyncio.run(story())
