"""Connections that come while the server ends: each is closed, and the end does not wait for those that ask nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from hostler.control.access.listen_addresses import parse_listen
from hostler.control.api.http_server import Server, bind, make_server
from hostler.control.api.requests.rejections import RemoteLog
from tests.wait import GIVE_UP_S, until


async def no_app(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("nobody asks anything")


def new_server() -> Server:
    return make_server(no_app, None, 30.0, RemoteLog(lambda line: None, lambda: 0))


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("turns", range(6))
def test_connection_accepted_as_the_server_ends_is_closed(
    turns: int, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """It connects some turns of the event loop before the end: not accepted, accepted, or made by then."""

    async def story() -> None:
        server, sock = new_server(), bind(parse_listen("127.0.0.1:0"))
        serving = asyncio.ensure_future(server.serve(sockets=[sock]))
        await until(lambda: server.started, "it listens")
        with socket.create_connection(sock.getsockname(), timeout=GIVE_UP_S) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.shutdown([sock])
            assert not server.server_state.connections
            assert await asyncio.to_thread(read_end, client) == b""
        server.should_exit = True
        await serving

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


def read_end(client: socket.socket) -> bytes:
    """Read until the other side ends, in order or not."""
    try:
        return client.recv(1)
    except ConnectionResetError:
        return b""
