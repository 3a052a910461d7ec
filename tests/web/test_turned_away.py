"""A caller without a valid key gets a page that says why, and a program gets an answer in its own format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hostler.control.access import RateLimits
from hostler.control.access.limits import OFF, Rate
from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service

FEW = RateLimits(changes=None, reads=None, failures=Rate(3, 3600))  # so rarely that none is given back meanwhile
JSON = {"Accept": "application/json"}


@asynccontextmanager
async def door(
    limits: RateLimits = OFF, *, is_led: bool = True
) -> AsyncIterator[tuple[InProcessService, httpx.AsyncClient]]:
    """Open a service with pages, and a browser of it that shows whatever was not caught."""
    async with open_service(limits=limits, is_led=is_led) as service:
        mount(service.app, service.context)
        transport = httpx.ASGITransport(app=service.app)
        origin = {"Origin": "http://localhost"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=origin) as browser:
            yield service, browser


def assert_is_page(answer: httpx.Response, code: str) -> None:
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert int(answer.headers["Retry-After"]) > 0
    assert f"<code>{code}</code>" in answer.text
    assert "Log out" not in answer.text


async def test_revoked_session_over_its_rate_limit_reads_when_to_retry() -> None:
    async with door(FEW) as (service, browser):
        key = await service.key("viewer")
        assert (await browser.post("/login", data={"key": key})).status_code == 303
        identity = (await service.as_key(key, "GET", "/v1/whoami")).json()["id"]
        assert (await service.ask("DELETE", f"/v1/keys/{identity}")).is_success
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


async def test_a_browser_reads_that_the_database_does_not_answer() -> None:
    async with door(is_led=False) as (service, browser):
        assert (await browser.post("/login", data={"key": service.secret})).status_code == 303
        identity = (await service.ask("GET", "/v1/whoami")).json()["id"]
        service.context.authenticator.forget(identity)
        await service.database.aclose()
        answer = await browser.get("/vms")
        assert answer.status_code == 503
        assert_is_page(answer, "database_closed")


async def test_a_program_with_a_key_learns_that_pages_are_not_for_it() -> None:
    async with door() as (service, _):
        for path, headers in (("/what-if?ask=json&cpu=1&memory=1Gi", {}), ("/what-if", JSON)):
            answer = await service.ask("GET", path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            assert "/v1" in answer.json()["hint"]
            assert answer.headers["content-type"] == "application/problem+json"


async def test_what_if_over_its_rate_limit_says_when_to_retry() -> None:
    async with door() as (service, browser):
        await service.add_hosts("a")
        assert (await browser.post("/login", data={"key": service.secret})).status_code == 303
        identity = (await service.ask("GET", "/v1/whoami")).json()["id"]
        asked = "/what-if?cpu=1&memory=1Gi&ask="
        with service.context.asking.turn(identity), service.context.asking.turn(identity):
            refused = await browser.get(f"{asked}json")
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
            assert "2 what-ifs of this key are running" in (await browser.get(f"{asked}page")).text
        assert (await browser.get(f"{asked}json")).status_code == 200
