"""Streams are counted, given back, and end with the service; connections and forms are not waited for for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import httpx
import pytest
import uvicorn

from hostler.control.api.http_server import timed_protocol
from hostler.control.api.requests.open_streams import Streams, TooManyStreamsError
from hostler.control.settings import ControlSettings
from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service

EVENTS = {"Accept": "text/event-stream"}


@asynccontextmanager
async def served(service: InProcessService) -> AsyncIterator[httpx.AsyncClient]:
    """Let the service listen on loopback, as ``serve`` does."""
    http = timed_protocol(service.context.settings.head_s, service.context.strangers)
    config = uvicorn.Config(service.app, host="127.0.0.1", port=0, http=http, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {"Authorization": f"Bearer {service.secret}"}
    try:
        async with httpx.AsyncClient(base_url=f"http://localhost:{port}", headers=headers, timeout=60) as client:
            yield client
    finally:
        service.context.stopping.set()
        service.context.books.subscriptions.close()
        server.should_exit = True
        await serving


async def none_open(service: InProcessService) -> None:
    while service.context.streams.count:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("path", ["/v1/events", "/v1/events?news=true"])
async def test_a_key_has_so_many_streams_and_gets_another_when_one_ends(path: str) -> None:
    async with open_service(settings=ControlSettings(streams_each=2)) as service, served(service) as client:
        secret = await service.key("viewer")
        mine = {**EVENTS, "Authorization": f"Bearer {secret}"}
        async with client.stream("GET", path, headers=mine), client.stream("GET", path, headers=mine):
            refused = await client.get(path, headers=mine)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert refused.headers["retry-after"]
            async with client.stream("GET", path, headers=EVENTS) as others:
                assert others.status_code == 200
        await none_open(service)
        async with client.stream("GET", path, headers=mine) as again:
            assert again.status_code == 200


async def test_all_keys_together_have_so_many_streams() -> None:
    async with open_service(settings=ControlSettings(streams=1)) as service, served(service) as client:
        secret = await service.key("viewer")
        async with client.stream("GET", "/v1/events", headers=EVENTS):
            mine = {**EVENTS, "Authorization": f"Bearer {secret}"}
            refused = await client.get("/v1/events", headers=mine)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")


async def log_in(client: httpx.AsyncClient, secret: str) -> None:
    home = {"Origin": str(client.base_url).rstrip("/"), "Authorization": ""}
    login = await client.post("/login", data={"key": secret, "next": "/"}, headers=home)
    assert login.status_code == 303, login.text


async def test_many_keys_of_one_project_leave_streams_to_others() -> None:
    async with open_service(settings=ControlSettings(streams=4)) as service:
        mount(service.app, service.context)
        async with served(service) as client, AsyncExitStack() as stack:
            for name in ("red", "blue"):
                assert (await service.ask("POST", "/v1/projects", json={"name": name})).status_code == 201
            first, second = [await service.key("viewer", "red") for _ in range(2)]
            theirs = await service.key("viewer", "blue")

            async def open_one(secret: str) -> httpx.Response:
                headers = {**EVENTS, "Authorization": f"Bearer {secret}"}
                return await stack.enter_async_context(client.stream("GET", "/v1/events", headers=headers))

            assert (await open_one(first)).status_code == 200
            refused = await open_one(second)
            await refused.aread()
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert refused.json()["detail"] == "1 stream is open for project red"
            await log_in(client, second)
            assert (await client.get("/live")).status_code == 429, "its pages count too"
            for other in (theirs, service.secret):
                assert (await open_one(other)).status_code == 200


def test_streams_of_projects_leave_some_to_fleet_keys() -> None:
    streams = Streams(most_each=100, most=20)
    for number in range(18):
        streams.begin(f"key {number}", f"project {number}")
    with pytest.raises(TooManyStreamsError, match="which is the limit of this service"):
        streams.begin("key 18", "project 18")
    for number in range(2):
        streams.begin(f"operator {number}", "")
    with pytest.raises(TooManyStreamsError, match="which is the limit of this service"):
        streams.begin("operator 2", "")
    streams.end("key 3", "project 3")
    streams.begin("key 18", "project 18")
    assert streams.count == 20


async def test_streams_of_pages_count_too() -> None:
    async with open_service(settings=ControlSettings(streams_each=1)) as service:
        mount(service.app, service.context)
        async with served(service) as client:
            await log_in(client, service.secret)
            async with client.stream("GET", "/live") as first:
                assert first.status_code == 200
                assert (await client.get("/live")).status_code == 429
                head = await client.head("/live")
                assert head.headers["content-type"].startswith("text/event-stream")
            await none_open(service)


async def test_all_streams_end_with_the_service() -> None:
    async with open_service() as service, served(service) as client:
        async with (
            client.stream("GET", "/v1/events", headers=EVENTS) as events,
            client.stream("GET", "/v1/events?news=true", headers=EVENTS) as news,
        ):
            service.context.stopping.set()
            for answer in (events, news):
                async for _ in answer.aiter_lines():
                    pass
        assert not [line for line in service.said if "request" in line]


@pytest.mark.parametrize("sent", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: 1"])
async def test_a_connection_without_a_whole_head_is_closed(sent: bytes) -> None:
    async with open_service(settings=ControlSettings(head_s=0.05)) as service, served(service) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(sent)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def answered(client: httpx.AsyncClient) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection on which a request was answered: one whose head came too late, by a pause, is closed."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(ConnectionResetError):
            if b"200" in await reader.readline():
                return reader, writer
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_half_a_head_after_a_whole_request_is_not_waited_for_either() -> None:
    async with open_service(settings=ControlSettings(head_s=0.5)) as service, served(service) as client:
        reader, writer = await answered(client)
        writer.write(b"GET /livez HT")
        await asyncio.gather(reader.read(), return_exceptions=True)  # ends, since the connection does
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def begun(client: httpx.AsyncClient, stack: AsyncExitStack) -> httpx.Response:
    """Return a stream that has begun to answer: it is asked for again where its head came too late, by a pause."""
    while True:
        with suppress(httpx.TransportError):
            return await stack.enter_async_context(client.stream("GET", "/v1/events", headers=EVENTS))


async def test_an_answer_may_take_longer_than_a_head() -> None:
    settings = ControlSettings(head_s=0.5, alive_s=2.0)
    async with open_service(settings=settings) as service, served(service) as client, AsyncExitStack() as stack:
        lines = (await begun(client, stack)).aiter_lines()
        while await anext(lines) != ": alive":
            pass


async def test_slow_form_times_out_without_log_line() -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"key="
        await asyncio.sleep(60)

    async with open_service(settings=ControlSettings(read_s=0.01)) as service:
        mount(service.app, service.context)
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://localhost"}
        late = await service.ask("POST", "/login", content=slow(), headers=form)
        assert late.status_code == 408
        large = await service.ask("POST", "/login", content=b"key=" + b"x" * (1 << 20), headers=form)
        assert large.status_code == 413
        assert not [line for line in service.said if "request" in line]


async def test_a_browser_that_hangs_up_in_a_form_leaves_no_trace_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        async with served(service) as client:
            _, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
            kind = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n"
            writer.write(b"POST /login HTTP/1.1\r\nHost: localhost\r\n" + kind + b"\r\nkey=")
            await writer.drain()
            while (await client.get("/livez")).status_code != 200:
                pass
            writer.close()
            await writer.wait_closed()
            for _ in range(20):
                await client.get("/livez")
        assert not [line for line in service.said if "request" in line]
    assert not [record for record in caplog.records if record.exc_info]
