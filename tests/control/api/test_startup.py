"""Before a service is ready it says that it lives and why nothing else is answered; then it answers everything."""

from __future__ import annotations

import asyncio

import httpx

from hostler.control.api.startup import StartupApp, log_slow_start
from tests.control.api.service_in_process import open_service


async def asked(porch: StartupApp, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(porch)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path)


async def test_a_service_that_starts_lives_and_says_why_it_is_not_ready():
    porch = StartupApp("stones are being laid")
    lives, ready, other = [await asked(porch, path) for path in ("/livez", "/readyz", "/v1/vms")]
    assert (lives.status_code, lives.json()["status"]) == (200, "ok")
    assert (ready.status_code, ready.json()["status"]) == (503, "starting")
    assert ready.json()["why"] == "stones are being laid"
    assert (other.status_code, other.json()["code"]) == (503, "starting")
    assert int(other.headers["Retry-After"]) > 0
    assert "stones are being laid" in other.json()["detail"]


async def test_once_it_is_open_the_application_answers():
    async with open_service() as service:
        porch = StartupApp("stones are being laid")
        porch.open(service.app)
        ready, other = [await asked(porch, path) for path in ("/readyz", "/v1/vms")]
        assert (ready.status_code, ready.json()["status"]) == (200, "ok")
        assert other.status_code == 401


async def test_a_start_that_takes_long_tells_why_until_it_is_over():
    porch, told = StartupApp("stones are being laid"), asyncio.Queue[str]()
    telling = asyncio.ensure_future(log_slow_start(porch, told.put_nowait, first_s=0.0))
    assert await told.get() == "not ready yet: stones are being laid"
    porch.why = "walls are being built"
    while "walls" not in (line := await told.get()):
        pass
    assert line == "not ready yet: walls are being built"
    porch.open(porch)
    await telling
