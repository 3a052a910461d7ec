"""The port of landings: who proves the secret gets in, and nobody learns it, replays it or wears the port out."""

from __future__ import annotations

import asyncio
import gc
import hmac
import json
import socket
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest

from hostler.agent.driver import DriverError, Landing, PermanentError
from hostler.agent.drivers.qemu.handshake import LandingPort, LandingRejectedError, knock, stream_key
from tests.async_tests import run_with
from tests.wait import until

SECRET = "5" * 64
OTHER = "7" * 64  # of the VM "b"


class LandingHost:
    def __init__(self, greeting_s):
        self.arrived = []
        self.refuses = None
        self.gate = None  # if there is one, what comes for "a" waits until it is set
        self.port = LandingPort({"a": SECRET, "b": OTHER}.get, self.take, greeting_s)
        self.landing = Landing(address="", secret=SECRET)

    async def take(self, vm, purpose, connection):
        if self.refuses is not None:
            raise self.refuses
        self.arrived.append((vm, purpose))
        if self.gate is not None and vm == "a":
            await self.gate.wait()


@asynccontextmanager
async def open_host(greeting_s):
    host = LandingHost(greeting_s)
    number = host.port.open("127.0.0.1", 0)
    host.landing = Landing(address=f"127.0.0.1:{number}", secret=SECRET)
    try:
        yield host
    finally:
        await host.port.close()


def on_a_host(scenario, greeting_s=3600):
    """Run a scenario on a port whose time limit closes no connection, unless the scenario sets one."""

    async def run():
        async with open_host(greeting_s) as host:
            await scenario(host)

    asyncio.run(run())


@asynccontextmanager
async def raw(host):
    reader, writer = await asyncio.open_connection(*host.landing.address.split(":"))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionResetError):
            await writer.wait_closed()


@run_with(on_a_host)
async def test_who_knows_the_secret_gets_in(host, /):
    for purpose in ("stream", "run"):
        (await knock(host.landing, "a", purpose)).close()
    assert host.arrived == [("a", "stream"), ("a", "run")]


@pytest.mark.parametrize(("vm", "secret"), [("a", "6" * 64), ("a", ""), ("b", SECRET), ("", SECRET)])
@run_with(on_a_host)
async def test_who_does_not_is_refused(host, /, vm, secret):
    with pytest.raises(LandingRejectedError, match="no such landing, or not its secret"):
        await knock(Landing(address=host.landing.address, secret=secret), vm, "stream")
    assert host.arrived == []


@run_with(on_a_host)
async def test_what_was_proved_once_opens_nothing_again(host, /):
    sent = []

    async def listen_in(reader, writer):
        upstream, downstream = await asyncio.open_connection(*host.landing.address.split(":"))
        writer.write(await upstream.readline())
        sent.append(await reader.readline())
        downstream.write(sent[0])
        writer.write(await upstream.readline())
        for one in (writer, downstream):
            one.close()
            await one.wait_closed()

    async with await asyncio.start_server(listen_in, "127.0.0.1", 0) as between:
        address = f"127.0.0.1:{between.sockets[0].getsockname()[1]}"
        (await knock(Landing(address=address, secret=SECRET), "a", "run")).close()
    assert SECRET.encode() not in sent[0]
    async with raw(host) as (reader, writer):
        await reader.readline()
        writer.write(sent[0])
        assert json.loads(await reader.readline())["proof"] == ""
    assert host.arrived == [("a", "run")]


@pytest.mark.parametrize("text", ["", "\u00fc" * 64, "0" * 63, "\0"])
@pytest.mark.parametrize("field", ["proof", "nonce", "vm"])
@run_with(on_a_host)
async def test_a_proof_that_is_none_is_refused_whatever_it_is_made_of(host, /, field, text):
    request = {"vm": "a", "purpose": "run", "nonce": "0", "proof": "0" * 64, field: text}
    async with raw(host) as (reader, writer):
        await reader.readline()
        writer.write(json.dumps(request).encode() + b"\n")
        assert json.loads(await reader.readline())["reason"] == "no such landing, or not its secret"
    assert host.arrived == []


@pytest.mark.parametrize("proof", ["0" * 64, "\u00fc" * 64, ""])
@run_with(on_a_host)
async def test_a_landing_that_does_not_know_the_secret_is_not_believed(host, /, proof):
    async def pretend(reader, writer):
        writer.write(b'{"challenge":"00"}\n')
        await reader.readline()
        writer.write(json.dumps({"proof": proof}).encode() + b"\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(pretend, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(LandingRejectedError, match="does not know the secret"):
            await knock(Landing(address=address, secret=SECRET), "a", "stream")


@pytest.mark.parametrize(("why", "expected"), [(PermanentError, LandingRejectedError), (DriverError, DriverError)])
@run_with(on_a_host)
async def test_a_refusal_comes_with_its_reason_and_says_whether_it_is_final(host, /, why, expected):
    host.refuses = why("not today")
    with pytest.raises(DriverError, match="not today") as caught:
        await knock(host.landing, "a", "stream")
    assert type(caught.value) is expected


@pytest.mark.parametrize("line", [b"x" * 5000, b"{}\n", b"\xff\n", b'{"vm":1}\n', b"", b'{"purpose":"kill"}\n'])
@run_with(on_a_host)
async def test_nonsense_ends_the_connection_and_not_the_port(host, /, line):
    async with raw(host) as (reader, writer):
        await reader.readline()
        writer.write(line)
        if writer.can_write_eof():
            writer.write_eof()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    (await knock(host.landing, "a", "run")).close()


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:1", "127.0.0.1:x", "[::1]:1", "127.0.0.1:99999999"])
def test_an_address_where_nobody_listens_is_an_error_that_may_pass(address):
    with pytest.raises(DriverError) as caught:
        asyncio.run(knock(Landing(address=address, secret=SECRET), "a", "stream"))
    assert caught.value.retryable


def test_the_key_of_the_stream_is_not_the_secret():
    assert stream_key(SECRET) != SECRET
    assert len(bytes.fromhex(stream_key(SECRET))) == 32


async def idle_connections(host, stack, count, address="127.0.0.2"):
    """Open connections that say nothing, from an address of this machine; return their readers."""
    readers = []
    for _ in range(count):
        name, port = host.landing.address.split(":")
        reader, writer = await asyncio.open_connection(name, port, local_addr=(address, 0))
        stack.callback(writer.close)
        readers.append(reader)
    return readers


async def until_open(readers, most):
    """Wait until at most so many connections are left open by the port, and see that it closes no others."""
    ends = [asyncio.ensure_future(reader.read()) for reader in readers]

    def left():
        return sum(not end.done() for end in ends)

    try:
        await until(lambda: left() <= most, f"at most {most} connections are left", saw=left)
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert left() >= most - 1, "the sender takes the place of one at most"
    finally:
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


@pytest.mark.parametrize("address", ["127.0.0.2", "127.0.0.1"], ids=["other host", "host of the sender"])
@run_with(on_a_host)
async def test_idle_connections_keep_no_migration_out(host, /, address):
    with ExitStack() as stack:
        readers = await idle_connections(host, stack, 100, address)
        (await knock(host.landing, "a", "stream")).close()
        assert host.arrived == [("a", "stream")]
        await until_open(readers, 8)


@run_with(on_a_host)
async def test_idle_connections_of_many_addresses_are_bounded_in_total(host, /):
    with ExitStack() as stack:
        readers = []
        for number in range(2, 60):
            readers += await idle_connections(host, stack, 1, f"127.0.0.{number}")
        (await knock(host.landing, "a", "stream")).close()
        await until_open(readers, 32)


@run_with(on_a_host, greeting_s=0.05)
async def test_connection_that_says_nothing_is_closed_in_time(host, /):
    with ExitStack() as stack:
        await until_open(await idle_connections(host, stack, 1), 0)


@run_with(on_a_host)
async def test_connection_that_is_proving_outlasts_a_flood_from_elsewhere(host, /):
    with ExitStack() as stack:
        async with raw(host) as (reader, writer):
            challenge = json.loads(await reader.readline())["challenge"]
            await until_open(await idle_connections(host, stack, 100), 8)
            proof = hmac.new(SECRET.encode(), f"sender\0run\0a\0{challenge}\0n".encode(), "sha256").hexdigest()
            request = {"vm": "a", "purpose": "run", "nonce": "n", "proof": proof}
            writer.write(json.dumps(request).encode() + b"\n")
            assert json.loads(await reader.readline())["proof"]
    assert host.arrived == [("a", "run")]


@run_with(on_a_host)
async def test_migration_under_way_outlasts_a_flood_and_its_repeats_are_bounded(host, /):
    """A sender that proves a secret again and again holds up nobody but itself."""

    host.gate = asyncio.Event()
    with ExitStack() as stack:
        first = [asyncio.create_task(knock(host.landing, "a", "stream")) for _ in range(4)]
        await until(lambda: len(host.arrived) >= len(first))
        with pytest.raises(DriverError, match="is being taken already") as caught:
            await knock(host.landing, "a", "stream")
        assert caught.value.retryable
        await until_open(await idle_connections(host, stack, 100, "127.0.0.1"), 8)
        (await knock(Landing(address=host.landing.address, secret=OTHER), "b", "run")).close()
        host.gate.set()
        for one in first:
            (await one).close()


@pytest.mark.parametrize("turns", range(6))
def test_connection_that_comes_as_the_port_closes_is_closed(turns):
    async def scenario(host):
        address, port = host.landing.address.split(":")
        await asyncio.sleep(0.01)  # it waits for a connection now
        with socket.create_connection((address, int(port)), timeout=60):
            for _ in range(turns):
                await asyncio.sleep(0)
            await host.port.close()

    on_a_host(scenario)
    gc.collect()  # a socket that nobody closed is an error of this test
