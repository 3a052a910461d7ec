"""Whoever cannot be told from a stranger gets a page that says why, and a program an answer in its own words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hostler.control.access import Limits
from hostler.control.access.limits import OFF, Rate
from hostler.web.pages import mount
from tests.control.api.house import House, open_house

FEW = Limits(changes=None, reads=None, failures=Rate(3, 3600))  # so rarely that none is given back meanwhile
JSON = {"Accept": "application/json"}


@asynccontextmanager
async def door(limits: Limits = OFF, *, is_led: bool = True) -> AsyncIterator[tuple[House, httpx.AsyncClient]]:
    """Open a service with pages, and a browser of it that shows whatever was not caught."""
    async with open_house(limits=limits, is_led=is_led) as house:
        mount(house.app, house.context)
        transport = httpx.ASGITransport(app=house.app)
        origin = {"Origin": "http://localhost"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=origin) as browser:
            yield house, browser


def assert_is_page(answer: httpx.Response, code: str) -> None:
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert int(answer.headers["Retry-After"]) > 0
    assert f"<code>{code}</code>" in answer.text
    assert "Log out" not in answer.text


def test_a_browser_with_the_cookie_of_a_revoked_key_that_knocks_too_often_reads_when_to_come_again() -> None:
    async def scenario() -> None:
        async with door(FEW) as (house, browser):
            key = await house.key("viewer")
            assert (await browser.post("/login", data={"key": key})).status_code == 303
            identity = (await house.as_key(key, "GET", "/v1/whoami")).json()["id"]
            assert (await house.ask("DELETE", f"/v1/keys/{identity}")).is_success
            answers = [await browser.get("/vms") for _ in range(12)]
            statuses = [one.status_code for one in answers]
            assert statuses[0] == 303
            assert answers[0].headers["location"] == "/login?next=%2Fvms"
            assert statuses[-1] == 429
            assert set(statuses) == {303, 429}
            assert_is_page(answers[-1], "too_many_requests")
            told = await browser.get("/what-if", headers=JSON)
            assert (told.status_code, told.json()["code"]) == (429, "too_many_requests")
            assert "default-src 'none'" in told.headers["content-security-policy"]

    asyncio.run(scenario())


def test_a_browser_reads_that_the_database_does_not_answer() -> None:
    async def scenario() -> None:
        async with door(is_led=False) as (house, browser):
            assert (await browser.post("/login", data={"key": house.secret})).status_code == 303
            identity = (await house.ask("GET", "/v1/whoami")).json()["id"]
            house.context.doorkeeper.forget(identity)
            await house.database.aclose()
            answer = await browser.get("/vms")
            assert answer.status_code == 503
            assert_is_page(answer, "database_closed")

    asyncio.run(scenario())


def test_a_program_with_a_key_is_told_that_pages_are_not_for_it() -> None:
    async def scenario() -> None:
        async with door() as (house, _):
            for path, headers in (("/what-if?ask=json&cpu=1&memory=1Gi", {}), ("/what-if", JSON)):
                answer = await house.ask("GET", path, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
                assert "/v1" in answer.json()["hint"]
                assert answer.headers["content-type"] == "application/problem+json"

    asyncio.run(scenario())


def test_a_browser_that_asks_what_if_too_often_at_once_reads_when_to_come_again() -> None:
    async def scenario() -> None:
        async with door() as (house, browser):
            await house.add_hosts("a")
            assert (await browser.post("/login", data={"key": house.secret})).status_code == 303
            identity = (await house.ask("GET", "/v1/whoami")).json()["id"]
            asked = "/what-if?cpu=1&memory=1Gi&ask="
            with house.context.asking.turn(identity), house.context.asking.turn(identity):
                refused = await browser.get(f"{asked}json")
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
                assert "2 what-ifs of this key are under way" in (await browser.get(f"{asked}page")).text
            assert (await browser.get(f"{asked}json")).status_code == 200

    asyncio.run(scenario())
