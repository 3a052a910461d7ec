"""What strangers send costs them nothing, so it costs the service little: bytes that are no HTTP, heads without an end,
answers that nobody reads, and the lines that the log has for them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from hostler.control.access.listen_addresses import parse_listen
from hostler.control.api.http_server import MOST_HEAD, Server, bind, make_server, timed_protocol
from tests.control.api.service_in_process import InProcessService, open_service
from tests.wait import GIVE_UP_S

ASK = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"


class Door:
    """A service that listens."""

    def __init__(self, service: InProcessService, server: Server, port: int) -> None:
        self.service = service
        self.server = server
        self.port = port

    async def send(self, *parts: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send bytes, and return the status, the headers and the rest of what comes until the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            with suppress(ConnectionError):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
            async with asyncio.timeout(GIVE_UP_S):
                answer = await reader.read()
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


@asynccontextmanager
async def door(**patience: float) -> AsyncIterator[Door]:
    """Let a service listen, whose clock stands still so that no limit is ever given back."""
    async with open_service() as service:
        service.context.clock = lambda: 10**18
        service.said.clear()
        sock = bind(parse_listen("127.0.0.1:0"))
        server = make_server(service.app, None, 30.0, service.context.strangers)
        if patience:
            server.config.http = timed_protocol(30.0, service.context.strangers, **patience)
        serving = asyncio.ensure_future(server.serve(sockets=[sock]))
        try:
            yield Door(service, server, sock.getsockname()[1])
        finally:
            server.should_exit = True
            await serving


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /livez HTTP/1.1\r\nHost localhost\r\n\r\n",
    ],
    ids=["words", "TLS", "a header without a colon"],
)
def test_malformed_http_gets_problem_and_is_logged_once_with_address(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with door() as at:
            status, headers, body = await at.send(sent)
            assert (status, headers["content-type"]) == (400, "application/problem+json")
            told = json.loads(body)
            assert (told["status"], told["code"]) == (400, "invalid_http")
            assert told["hint"]
            assert at.service.said == ["not an HTTP request from 127.0.0.1"]

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert caplog.records == [], "the server's own words come in no form of ours"


def test_an_upgrade_that_nobody_offers_is_an_ordinary_request(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with door() as at:
            more = b"Connection: close, Upgrade\r\nUpgrade: websocket\r\n\r\n"
            status, _, _ = await at.send(ASK + more)
            assert status == 200
            assert at.service.said == []

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert caplog.records == []


async def test_an_address_has_so_many_lines_in_the_log() -> None:
    async with door() as at:
        for _ in range(30):
            assert (await at.send(b"hello\r\n\r\n"))[0] == 400
        assert len(at.service.said) == 20


async def test_repeated_requests_without_a_key_do_not_fill_the_log() -> None:
    async with open_service() as service:
        service.context.clock = lambda: 10**18
        service.said.clear()
        for _ in range(30):
            refused = await service.client.get("/v1/vms", headers={"Authorization": ""})
            assert refused.status_code == 401
        assert len(service.said) == 20
        assert {line.partition(": ")[2] for line in service.said} == {"refused missing from 127.0.0.1"}


async def test_a_request_with_two_names_of_a_host_is_for_none() -> None:
    async with door() as at:
        asked = ASK.replace(b"/livez", b"/v1/vms")  # probes are answered by whatever name
        status, _, body = await at.send(asked + b"Host: localhost\r\nConnection: close\r\n\r\n")
        assert (status, json.loads(body)["code"]) == (421, "host_not_allowed")


CHUNKED = b"POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "many headers": (ASK, b"X-Number: 7\r\n" * 1000),
    "one long header": (ASK + b"X-Long: ", b"x" * 10_000),
    "a long path": (b"GET /", b"x" * 10_000),
}


@pytest.mark.parametrize("begin, more", ENDLESS.values(), ids=ENDLESS)  # noqa: PT006
async def test_a_head_without_an_end_is_refused(begin: bytes, more: bytes) -> None:
    async with door() as at:
        # No more than is taken before the answer: who goes on sending may lose it.
        count = -(-MOST_HEAD // len(more))
        status, headers, body = await at.send(begin + more * count)
        assert (status, json.loads(body)["code"]) == (431, "head_too_large")
        assert headers["connection"] == "close"


@pytest.mark.parametrize(
    ("begin", "more"),
    [(b"5;name=", b"x" * 10_000), (b"2\r\n{}\r\n0\r\n", b"X-Number: 7\r\n" * 1000)],
    ids=["what a chunk is called", "what comes after the last chunk"],
)
async def test_what_stands_beside_a_body_ends_too(begin: bytes, more: bytes) -> None:
    async with door() as at:
        _, writer = await asyncio.open_connection("127.0.0.1", at.port)
        with suppress(ConnectionError):
            async with asyncio.timeout(GIVE_UP_S):
                writer.write(CHUNKED + begin)
                while not writer.is_closing():  # the service closes it
                    writer.write(more)
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()
        await gone(at.server)


async def begun(server: Server) -> None:
    """Wait until a server has given an answer."""
    async with asyncio.timeout(GIVE_UP_S):
        while not server.server_state.total_requests:
            await asyncio.sleep(0.01)


async def gone(server: Server) -> None:
    """Wait until a server has no connection."""
    async with asyncio.timeout(GIVE_UP_S):
        while server.server_state.connections:
            await asyncio.sleep(0.01)


async def test_a_large_head_and_a_large_body_are_taken() -> None:
    async with door() as at:
        status, _, _ = await at.send(ASK + b"Connection: close\r\n", b"X-Long: " + b"x" * 60_000 + b"\r\n\r\n")
        assert status == 200
        body = b'{"vms": [{"spec": {"cpu": "1", "memory": "1Gi"}}]' + b" " * 900_000 + b"}"
        head = b"POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "
        head += at.service.secret.encode() + b"\r\nContent-Type: application/json\r\n"
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        at.service.context.clock = type(at.service.context).clock
        status, _, answer = await at.send(head, length, body)
        assert status == 200, answer


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"], ids=["among many", "the last"])
async def test_who_does_not_read_answers_is_not_waited_for(last: bytes) -> None:
    async with door(stall_s=0.2) as at:
        with slow_reader(at.port) as sock:
            await ask_on_and_on(sock, last)
            await begun(at.server)
            await gone(at.server)


def slow_reader(port: int) -> socket.socket:
    """Return a connection that has little room for what it does not read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    sock.setblocking(False)
    return sock


async def ask_on_and_on(sock: socket.socket, last: bytes) -> None:
    """Ask for what is long, until the service takes no more or has closed the connection."""
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n"
    asks = (ask + b"\r\n") * 200 + ask + last + b"\r\n"
    loop: Any = asyncio.get_running_loop()
    with suppress(ConnectionError):
        async with asyncio.timeout(GIVE_UP_S):
            await loop.sock_sendall(sock, asks)


async def test_too_large_head_is_rejected_even_if_it_comes_at_once():
    async with door() as there:
        head = ASK + b"Connection: close\r\nX-Long: " + b"x" * MOST_HEAD + b"\r\n\r\n"
        status, headers, body = await there.send(head)
        assert (status, json.loads(body)["code"]) == (431, "head_too_large")
        assert headers["connection"] == "close"
        status, _, _ = await there.send(ASK + b"Connection: close\r\nX-Long: " + b"x" * 60_000 + b"\r\n\r\n")
        assert status == 200


@pytest.mark.parametrize("trailer", ["Authorization: Bearer {}", "Host: elsewhere"], ids=["a key", "a host"])
async def test_what_comes_behind_a_body_is_no_header(trailer):
    async with door() as there:
        sent = trailer.format(there.service.secret).encode()
        head = b"POST /v1/projects HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        body = b'{"name": "red"}'
        chunks = b"%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(body), body, sent)
        status, _, _ = await there.send(head + chunks)
        assert status == 401


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "If-Match"])
async def test_a_header_that_says_two_things_is_refused(name):
    async with open_service() as service:
        values = {"Authorization": f"Bearer {service.secret}", "Idempotency-Key": "one", "If-Match": '"1"'}
        twice = [(name, values[name])] * 2
        answer = await service.ask("PATCH", "/v1/projects/default", json={}, headers=twice)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
        assert f"{name.lower()} is repeated" in answer.json()["detail"]
