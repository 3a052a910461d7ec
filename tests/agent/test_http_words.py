"""What an agent says when its server cannot be reached: one plain line, without words of the library below."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import aiohttp
import pytest

from hostler.agent.connection.http import HttpTransport
from hostler.runtime.transport import Request, TransportError
from tests.agent.test_http import HOST, echo, server
from tests.kube.api.certificates import Authority, server_tls


async def refused(address: str, **how) -> str:
    """Return what is said of a server that cannot be reached, less its address."""
    transport = HttpTransport(address, **how)
    try:
        with pytest.raises(TransportError) as caught:
            await transport.send(Request(method="GET", path="/"))
    finally:
        await transport.close()
    said = caught.value.message
    assert said.startswith(f"{address} cannot be reached: ")
    assert not [word for word in ("ssl:", "Errno", "\n", "_ssl") if word in said]
    return said.removeprefix(f"{address} cannot be reached: ")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("name", [HOST, "localhost"])
def test_a_port_where_nobody_listens_refuses_the_connection(scheme, name):
    with socket.socket() as held:  # bound and not listening: nobody else gets it
        held.bind((HOST, 0))
        said = asyncio.run(refused(f"{scheme}://{name}:{held.getsockname()[1]}"))
    assert said == os.strerror(errno.ECONNREFUSED).lower()


def test_a_server_without_tls_differs_from_one_that_is_not_there():
    async def scenario():
        async with server(echo) as address:
            return await refused(address.replace("http:", "https:"))

    assert asyncio.run(scenario()).startswith("TLS cannot be agreed on (")


def test_a_certificate_that_is_not_accepted_is_said_to_be_that(tmp_path):
    tls = server_tls(Authority().sign("server", HOST))

    async def scenario():
        async with server(echo, tls) as address:
            return await refused(address)

    said = asyncio.run(scenario())
    assert said.startswith("its certificate is not accepted: ")
    assert "--ca-file" in said


@pytest.mark.parametrize(
    ("answer", "said"),
    [(b"", "the connection ended before the answer"), (b"HTTP/1.1 what?\r\n\r\n", "its answer is no HTTP")],
)
def test_a_stranger_behind_the_address_is_reported_as_it_behaves(answer, said):
    async def answer_all(reader, writer):
        await reader.readline()
        writer.write(answer)
        writer.close()

    async def scenario():
        async with await asyncio.start_server(answer_all, HOST, 0) as stranger:
            return await refused(f"http://{HOST}:{stranger.sockets[0].getsockname()[1]}")

    assert asyncio.run(scenario()) == said


def test_a_name_that_nobody_knows_is_said_to_be_that(monkeypatch):
    class Nowhere(aiohttp.abc.AbstractResolver):
        def __init__(self, **options):
            """Take what any resolver is given."""

        async def resolve(self, host, port=0, family=socket.AF_INET):
            raise OSError(None, "nobody knows it")

        async def close(self):
            """Nothing is open."""

    monkeypatch.setattr(aiohttp.connector, "DefaultResolver", Nowhere)
    assert asyncio.run(refused("https://no.such.name.invalid:1")) == "its name cannot be resolved"
