"""Failures between client and server: clear messages, and correct statements on whether the server may have acted."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket

import pytest

from hostler.kube.api.client import KubeClient
from hostler.kube.api.credentials import ClientIdentity, FixedCredential
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.api.resources import PODS
from hostler.runtime.transport import TransportError
from tests.kube.api.certificates import Authority, server_tls
from tests.kube.api.scripted_server import ReceivedCall, Wire, access_to, client_of, page, pod, serving
from tests.wait import GIVE_UP_S, until


async def answer_ok(call: ReceivedCall, wire: Wire) -> None:
    await wire.answer(200, pod("p"))


async def answer_first(call: ReceivedCall, wire: Wire) -> None:
    """Answer what comes first, so that a connection is there, and nothing else."""
    if call.path != "/first":
        await asyncio.sleep(3600)
    await wire.answer(200, {})


async def bind_late(client: KubeClient) -> None:
    """Bind on a connection that is there already: making one counts too, and may take a busy machine too long."""
    await client.post("/first", {})
    await client.bind("n", "p", "u", "h", timeout_s=0.2)


async def call_once(access, work=lambda client: client.post("/x", {}, timeout_s=GIVE_UP_S)):
    client = KubeClient(AiohttpTransport(access))
    try:
        return await work(client)
    finally:
        await client.close()


def failure_of(script, work=lambda client: client.post("/x", {}, timeout_s=GIVE_UP_S)) -> TransportError:
    async def main():
        async with client_of(script) as (client, _server):
            await work(client)

    with pytest.raises(TransportError) as caught:
        asyncio.run(main())
    return caught.value


def tls_call(pair, **access):
    async def main():
        async with serving(answer_ok, server_tls(pair)) as server:
            return await call_once(access_to(server.port, scheme="https", **access))

    return asyncio.run(main())


def test_refused_connection_did_nothing_and_hints_at_the_cluster():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(TransportError, match="connection refused") as caught:
            asyncio.run(call_once(access_to(taken.getsockname()[1])))
    assert not caught.value.may_have_acted
    assert "is the cluster up" in caught.value.hint


def test_a_name_that_nobody_knows_did_nothing():
    access = access_to(1)
    access.server = "http://nowhere.invalid:6443"
    with pytest.raises(TransportError, match="name cannot be resolved") as caught:
        asyncio.run(call_once(access))
    assert not caught.value.may_have_acted


def test_a_connection_that_breaks_after_sending_may_have_acted():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        wire.reset()

    assert failure_of(script).may_have_acted


def test_a_server_that_closes_without_an_answer_may_have_acted():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        wire.writer.close()

    error = failure_of(script)
    assert error.may_have_acted
    assert "without an answer" in error.message


def test_no_answer_in_time_may_have_acted():
    error = failure_of(answer_first, bind_late)
    assert error.may_have_acted
    assert "within 0.2 s" in error.message


def test_half_an_answer_may_have_acted():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.raw(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"half":')
        wire.writer.close()

    assert failure_of(script).may_have_acted


def test_something_that_speaks_no_http_is_an_error():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.raw(b"SSH-2.0-OpenSSH\r\n\r\n")
        wire.writer.close()

    assert "does not speak HTTP" in failure_of(script).message


@pytest.mark.parametrize("method", ["create", "replace", "delete"])
def test_no_write_is_sent_twice_when_a_kept_connection_breaks(method):
    async def script(call: ReceivedCall, wire: Wire) -> None:
        if call.method == "POST" and call.path == "/warm":
            await wire.answer(200, {})
        else:
            wire.reset()

    works = {
        "create": lambda client: client.create(PODS, "n", {}),
        "replace": lambda client: client.replace(PODS, "n", "p", {}),
        "delete": lambda client: client.delete(PODS, "n", "p"),
    }

    async def main() -> None:
        async with client_of(script) as (client, server):
            await client.post("/warm", {})
            with pytest.raises(TransportError) as caught:
                await works[method](client)
            assert caught.value.may_have_acted
            assert len(server.calls) == 2

    asyncio.run(main())


def test_a_watch_whose_headers_do_not_come_is_given_up():
    async def main() -> None:
        async with client_of(answer_first, call_timeout_s=0.2) as (client, _server):
            await client.post("/first", {}, timeout_s=GIVE_UP_S)
            await anext(client.watch(PODS, "1"))

    with pytest.raises(TransportError, match="no answer"):
        asyncio.run(main())


def test_a_certificate_of_the_right_authority_is_believed():
    authority = Authority()
    assert tls_call(authority.sign("server", "127.0.0.1"), authority=authority.pem)


def test_a_serving_certificate_may_be_its_own_authority():
    pair = Authority().sign("server", "127.0.0.1")
    assert tls_call(pair, authority=pair.certificate)


def test_certificate_of_another_authority_is_rejected_before_sending():
    with pytest.raises(TransportError, match="not trusted") as caught:
        tls_call(Authority().sign("server", "127.0.0.1"), authority=Authority("other").pem)
    assert not caught.value.may_have_acted
    assert "certificate-authority" in caught.value.hint


def test_certificate_for_another_name_is_rejected_unless_name_is_given():
    authority = Authority()
    pair = authority.sign("server", "kubernetes.default")
    with pytest.raises(TransportError, match="another name") as caught:
        tls_call(pair, authority=authority.pem)
    assert "tls-server-name" in caught.value.hint
    assert tls_call(pair, authority=authority.pem, server_name="kubernetes.default")


def test_an_unverified_server_is_taken_when_told_so():
    assert tls_call(Authority().sign("server"), is_insecure=True)


async def test_a_client_certificate_is_shown():
    authority = Authority()
    pair = authority.sign("me")

    tls = server_tls(authority.sign("server", "127.0.0.1"), authority)
    async with serving(answer_ok, tls) as server:
        credential = FixedCredential(ClientIdentity(certificate=pair.certificate, key=pair.key))
        good = access_to(server.port, credential, "https", authority=authority.pem)
        assert await call_once(good)
        with pytest.raises(TransportError):
            await call_once(access_to(server.port, scheme="https", authority=authority.pem))


def test_tls_to_a_port_without_tls_says_so():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            await call_once(access_to(server.sockets[0].getsockname()[1], scheme="https"))

    with pytest.raises(TransportError, match="TLS failed") as caught:
        asyncio.run(main())
    assert not caught.value.may_have_acted


async def test_sixty_four_parallel_calls_respect_the_connection_limit():
    async with serving(answer_ok) as server:
        client = KubeClient(AiohttpTransport(access_to(server.port), max_connections=4))
        try:
            await asyncio.gather(*(client.post("/x", {}) for _ in range(64)))
        finally:
            await client.close()
        assert len(server.calls) == 64
        assert server.connections <= 4


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.answer(200, {})
        wire.writer.close()

    async with client_of(script) as (client, server):
        for _ in range(3):
            await client.post("/x", {})
            await asyncio.sleep(0.05)
        assert server.connections == 3


async def test_an_answer_that_comes_too_late_is_not_taken_for_the_next():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        if call.path == "/slow":
            await asyncio.sleep(0.3)
        await wire.answer(200, call.path.encode())

    async with client_of(script) as (client, _server):
        with pytest.raises(TransportError):
            await client.post("/slow", {}, timeout_s=0.1)
        assert await client.post("/next", {}) == b"/next"


async def test_a_call_that_is_cancelled_ends_its_connection():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        begun.set()
        await reader.read()  # until the other side closes
        writer.transport.abort()
        await asyncio.sleep(0)
        ended.set()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        client = KubeClient(AiohttpTransport(access_to(server.sockets[0].getsockname()[1])))
        task = asyncio.create_task(client.post("/slow", {}))
        await until(begun.is_set, "the call is under way")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(ended.is_set, "its connection ended")
        await client.close()


async def test_bytes_that_nobody_asked_for_end_the_connection():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.answer(200, call.path.encode())
        await asyncio.sleep(0.02)
        await wire.answer(200, b"unasked")

    async with client_of(script) as (client, server):
        for count, path in enumerate(("/a", "/b", "/c"), 1):
            assert await client.post(path, {}) == path.encode()
            await until(lambda count=count: server.ended == count, "the client ended the connection")


async def test_waiting_for_a_free_connection_sends_nothing():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await asyncio.sleep(60)

    async with serving(script) as server:
        client = KubeClient(AiohttpTransport(access_to(server.port), max_connections=1))
        first = asyncio.create_task(client.post("/first", {}))
        await until(lambda: server.calls, "the first call has the connection")
        with pytest.raises(TransportError) as caught:
            await client.post("/second", {}, timeout_s=0.1)
        assert not caught.value.may_have_acted
        assert [call.path for call in server.calls] == ["/first"]
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await client.close()


def test_a_handshake_that_never_ends_sends_nothing():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.transport.abort()
        await asyncio.sleep(0)
        ended.set()

    ended = asyncio.Event()

    async def main() -> None:
        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            access = access_to(server.sockets[0].getsockname()[1], scheme="https")
            try:
                await call_once(access, lambda client: client.post("/x", {}, timeout_s=0.2))
            finally:
                await ended.wait()

    with pytest.raises(TransportError, match="no connection in time") as caught:
        asyncio.run(main())
    assert not caught.value.may_have_acted


def test_a_path_with_line_ends_is_not_sent():
    with pytest.raises(TransportError, match="not a valid path"):
        asyncio.run(call_once(access_to(1), lambda client: client.post("/x HTTP/1.1\r\nX: y", {})))


def test_a_server_behind_a_path_is_reached_by_reads_and_writes():
    async def main() -> list[str]:
        async with serving(answer_ok) as server:
            access = access_to(server.port)
            access.server += "/clusters/one"
            await call_once(access, lambda client: client.get(PODS, "n", "p"))
            await call_once(access, lambda client: client.delete(PODS, "n", "p"))
            return [call.path for call in server.calls]

    assert asyncio.run(main()) == ["/clusters/one/api/v1/namespaces/n/pods/p"] * 2


def test_lists_from_afar_come_compressed():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        assert call.headers["accept-encoding"] == "gzip"
        body = gzip.compress(json.dumps(page([pod("a")], 7)).encode())
        await wire.answer(200, body, Content_Encoding="gzip")

    async def main() -> str:
        async with serving(script, host="127.0.0.2") as server:
            access = access_to(server.port)
            access.server = access.server.replace("127.0.0.1", "127.0.0.2")
            return (await call_once(access, lambda client: client.list(PODS))).version

    assert asyncio.run(main()) == "7"


@pytest.mark.parametrize("method", ["read", "post"])
def test_failures_to_connect_are_the_same_for_reads_and_writes(method):
    authority, other = Authority(), Authority("other")
    works = {
        "read": lambda client: client.read("/x"),
        "post": lambda client: client.post("/x", {}, timeout_s=GIVE_UP_S),
    }

    async def main(pair, **access) -> None:
        async with serving(answer_ok, server_tls(pair)) as server:
            await call_once(access_to(server.port, scheme="https", **access), works[method])

    with pytest.raises(TransportError, match="not trusted"):
        asyncio.run(main(other.sign("server", "127.0.0.1"), authority=authority.pem))
    with pytest.raises(TransportError, match="another name"):
        asyncio.run(main(authority.sign("server", "elsewhere"), authority=authority.pem))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(TransportError, match="connection refused") as caught:
            asyncio.run(call_once(access_to(taken.getsockname()[1]), works[method]))
    assert not caught.value.may_have_acted
