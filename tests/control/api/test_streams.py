"""Streams are counted, given back, and end with the service; connections and forms are not waited for for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import httpx
import pytest
import uvicorn

from hostler.control.api.connections import patient
from hostler.control.api.streams import Streams, TooManyStreamsError
from hostler.control.settings import ControlSettings
from hostler.web.pages import mount
from tests.control.api.house import House, open_house

EVENTS = {"Accept": "text/event-stream"}


@asynccontextmanager
async def served(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """Let the service listen on loopback, as ``serve`` does."""
    http = patient(house.context.settings.head_s, house.context.strangers)
    config = uvicorn.Config(house.app, host="127.0.0.1", port=0, http=http, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {"Authorization": f"Bearer {house.secret}"}
    try:
        async with httpx.AsyncClient(base_url=f"http://localhost:{port}", headers=headers, timeout=60) as client:
            yield client
    finally:
        house.context.stopping.set()
        house.context.books.watchers.close()
        server.should_exit = True
        await serving


async def none_open(house: House) -> None:
    while house.context.streams.count:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("path", ["/v1/events", "/v1/events?news=true"])
def test_a_key_has_so_many_streams_and_gets_another_when_one_ends(path: str) -> None:
    async def scenario() -> None:
        async with open_house(settings=ControlSettings(streams_each=2)) as house, served(house) as client:
            secret = await house.key("viewer")
            mine = {**EVENTS, "Authorization": f"Bearer {secret}"}
            async with client.stream("GET", path, headers=mine), client.stream("GET", path, headers=mine):
                refused = await client.get(path, headers=mine)
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
                assert refused.headers["retry-after"]
                async with client.stream("GET", path, headers=EVENTS) as others:
                    assert others.status_code == 200
            await none_open(house)
            async with client.stream("GET", path, headers=mine) as again:
                assert again.status_code == 200

    asyncio.run(scenario())


def test_all_keys_together_have_so_many_streams() -> None:
    async def scenario() -> None:
        async with open_house(settings=ControlSettings(streams=1)) as house, served(house) as client:
            secret = await house.key("viewer")
            async with client.stream("GET", "/v1/events", headers=EVENTS):
                mine = {**EVENTS, "Authorization": f"Bearer {secret}"}
                refused = await client.get("/v1/events", headers=mine)
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")

    asyncio.run(scenario())


async def log_in(client: httpx.AsyncClient, secret: str) -> None:
    home = {"Origin": str(client.base_url).rstrip("/"), "Authorization": ""}
    login = await client.post("/login", data={"key": secret, "next": "/"}, headers=home)
    assert login.status_code == 303, login.text


def test_many_keys_of_one_project_leave_streams_to_others() -> None:
    async def scenario() -> None:
        async with open_house(settings=ControlSettings(streams=4)) as house:
            mount(house.app, house.context)
            async with served(house) as client, AsyncExitStack() as stack:
                for name in ("red", "blue"):
                    assert (await house.ask("POST", "/v1/projects", json={"name": name})).status_code == 201
                first, second = [await house.key("viewer", "red") for _ in range(2)]
                theirs = await house.key("viewer", "blue")

                async def open_one(secret: str) -> httpx.Response:
                    headers = {**EVENTS, "Authorization": f"Bearer {secret}"}
                    return await stack.enter_async_context(client.stream("GET", "/v1/events", headers=headers))

                assert (await open_one(first)).status_code == 200
                refused = await open_one(second)
                await refused.aread()
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
                assert refused.json()["detail"] == "1 streams are open for project red"
                await log_in(client, second)
                assert (await client.get("/live")).status_code == 429, "its pages count too"
                for other in (theirs, house.secret):
                    assert (await open_one(other)).status_code == 200

    asyncio.run(scenario())


def test_all_projects_together_leave_some_streams_to_keys_of_the_whole_fleet() -> None:
    streams = Streams(most_each=100, most=20)
    for number in range(18):
        streams.begin(f"key {number}", f"project {number}")
    with pytest.raises(TooManyStreamsError, match="as many as this service may have"):
        streams.begin("key 18", "project 18")
    for number in range(2):
        streams.begin(f"operator {number}", "")
    with pytest.raises(TooManyStreamsError, match="as many as this service may have"):
        streams.begin("operator 2", "")
    streams.end("key 3", "project 3")
    streams.begin("key 18", "project 18")
    assert streams.count == 20


def test_streams_of_pages_count_too() -> None:
    async def scenario() -> None:
        async with open_house(settings=ControlSettings(streams_each=1)) as house:
            mount(house.app, house.context)
            async with served(house) as client:
                await log_in(client, house.secret)
                async with client.stream("GET", "/live") as first:
                    assert first.status_code == 200
                    assert (await client.get("/live")).status_code == 429
                    head = await client.head("/live")
                    assert head.headers["content-type"].startswith("text/event-stream")
                await none_open(house)

    asyncio.run(scenario())


def test_all_streams_end_with_the_service() -> None:
    async def scenario() -> None:
        async with open_house() as house, served(house) as client:
            async with (
                client.stream("GET", "/v1/events", headers=EVENTS) as events,
                client.stream("GET", "/v1/events?news=true", headers=EVENTS) as news,
            ):
                house.context.stopping.set()
                for answer in (events, news):
                    async for _ in answer.aiter_lines():
                        pass
            assert not [line for line in house.said if "request" in line]

    asyncio.run(scenario())


@pytest.mark.parametrize("sent", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: 1"])
def test_a_connection_without_a_whole_head_is_closed(sent: bytes) -> None:
    async def scenario() -> None:
        async with open_house(settings=ControlSettings(head_s=0.05)) as house, served(house) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
            writer.write(sent)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    asyncio.run(scenario())


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


def test_half_a_head_after_a_whole_request_is_not_waited_for_either() -> None:
    async def scenario() -> None:
        async with open_house(settings=ControlSettings(head_s=0.5)) as house, served(house) as client:
            reader, writer = await answered(client)
            writer.write(b"GET /livez HT")
            await asyncio.gather(reader.read(), return_exceptions=True)  # ends, since the connection does
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    asyncio.run(scenario())


async def begun(client: httpx.AsyncClient, stack: AsyncExitStack) -> httpx.Response:
    """Return a stream that has begun to answer: it is asked for again where its head came too late, by a pause."""
    while True:
        with suppress(httpx.TransportError):
            return await stack.enter_async_context(client.stream("GET", "/v1/events", headers=EVENTS))


def test_an_answer_may_take_longer_than_a_head() -> None:
    async def scenario() -> None:
        settings = ControlSettings(head_s=0.5, alive_s=2.0)
        async with open_house(settings=settings) as house, served(house) as client, AsyncExitStack() as stack:
            lines = (await begun(client, stack)).aiter_lines()
            while await anext(lines) != ": alive":
                pass

    asyncio.run(scenario())


def test_a_form_that_does_not_come_is_not_waited_for_and_leaves_no_trace_in_the_log() -> None:
    async def scenario() -> None:
        async def slow() -> AsyncIterator[bytes]:
            yield b"key="
            await asyncio.sleep(60)

        async with open_house(settings=ControlSettings(read_s=0.01)) as house:
            mount(house.app, house.context)
            form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://localhost"}
            late = await house.ask("POST", "/login", content=slow(), headers=form)
            assert late.status_code == 408
            large = await house.ask("POST", "/login", content=b"key=" + b"x" * (1 << 20), headers=form)
            assert large.status_code == 413
            assert not [line for line in house.said if "request" in line]

    asyncio.run(scenario())


def test_a_browser_that_hangs_up_in_a_form_leaves_no_trace_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            async with served(house) as client:
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
            assert not [line for line in house.said if "request" in line]

    asyncio.run(scenario())
    assert not [record for record in caplog.records if record.exc_info]
