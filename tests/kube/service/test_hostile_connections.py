"""Hostile connections: unfinished requests do not hold places forever, and invalid ones get an error."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import resource
import socket
import ssl

import pytest
import uvloop

from hostler.runtime.listener import ListenerLimits
from tests.kube.api.certificates import Authority
from tests.kube.service.service_in_process import node, pod, scheduling, server_with
from tests.kube.service.test_certificates import shown_by
from tests.kube.service.test_certificates import write as write_pair
from tests.wait import GIVE_UP_S, until

HEAD = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Never: ends"
BODY = b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{"
IMPATIENT = ListenerLimits(head_s=2.0, body_s=2.0)  # longer than a busy machine holds up those who mean well


@contextlib.asynccontextmanager
async def connected(pages, count, sent=b""):
    """Yield connections that have sent these bytes and no more."""
    port = int(pages.address.rpartition(":")[2])
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        for _, writer in made:
            writer.write(sent)
        yield made
    finally:
        for _, writer in made:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in made), return_exceptions=True)


async def rest_of(connection):
    """Return the bytes until the other side closes the connection."""
    try:
        return await connection[0].read()
    except ConnectionError:
        return b""


async def send(pages, request):
    """Send bytes; return the status, the kind of answer, and the answer."""
    async with connected(pages, 1, request) as (connection,):
        head, _, body = (await rest_of(connection)).partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, head
    return int(head.split()[1]), json.loads(body)


def at_the_port(work, server=None, run=asyncio.run, **options):
    async def main():
        async with (
            asyncio.timeout(GIVE_UP_S),
            scheduling(server or server_with(node("n"), pod("a")), **options) as pages,
        ):
            return await work(pages)

    return run(main())


@pytest.fixture
def pair(tmp_path):
    """Give the files of a certificate and its key."""
    write_pair(tmp_path, Authority().sign("shown", "127.0.0.1"))
    return tmp_path / "tls.crt", tmp_path / "tls.key"


both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


def ask(path, token="ann", *more):
    lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *more]
    head = "\r\n".join(lines).encode() + b"\r\nAuthorization: Bearer "
    return head + (token if isinstance(token, bytes) else token.encode()) + b"\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET /li", HEAD], ids=["nothing", "half a line", "half a head"])
def test_unfinished_request_heads_are_closed_and_the_page_still_answers(sent):
    async def work(pages):
        async with connected(pages, 50, sent) as half:
            answer = await pages.get("/livez", token="")
            return answer, await asyncio.gather(*map(rest_of, half))

    answer, rest = at_the_port(work, limits=IMPATIENT)
    assert answer == (200, "ok")
    assert rest == [b""] * 50


def test_a_second_request_that_never_ends_is_ended_too():
    async def work(pages):
        async with connected(pages, 1, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" + HEAD) as (connection,):
            return await rest_of(connection)

    assert at_the_port(work, limits=IMPATIENT).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    ("token", "status", "code"), [(b"ann", 408, "too_slow"), (b"nobody", 401, "not_authenticated")]
)
def test_a_body_that_never_comes_is_given_up(token, status, code):
    async def work(pages):
        async with connected(pages, 20, BODY % token) as half:
            probe = await pages.get("/livez", token="")
            return probe, await asyncio.gather(*map(rest_of, half))

    probe, answers = at_the_port(work, limits=IMPATIENT)
    assert probe == (200, "ok")
    for answer in answers:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == status
        assert json.loads(body)["code"] == code


def test_where_all_places_are_taken_the_oldest_without_a_request_give_way():
    async def work(pages):
        async with connected(pages, 20, HEAD) as half:
            probe = await pages.get("/livez", token="")
            first = await asyncio.gather(*map(rest_of, half[:10]))
            return probe, first

    # Nobody's time is ever up here: only the lack of room can end a connection.
    probe, first = at_the_port(work, limits=ListenerLimits(connections=8, head_s=3600))
    assert probe == (200, "ok")
    assert first == [b""] * 10


def test_a_request_that_is_worked_on_keeps_its_place():
    server = server_with()

    async def work(pages):
        async with connected(pages, 1, BODY % b"ann") as (working,):
            await until(lambda: any("tokenreviews" in entry.path for entry in server.log))
            async with connected(pages, 5, HEAD) as others:
                ended = await asyncio.gather(*map(rest_of, others))
            working[1].write(b" " * 999)
            return ended, await working[0].readuntil(b"\r\n\r\n")

    ended, head = at_the_port(work, server, limits=ListenerLimits(connections=1, head_s=3600, body_s=3600))
    assert ended == [b""] * 5
    assert head.startswith(b"HTTP/1.1 400")


@both_loops
def test_unstarted_handshakes_take_places_too_and_give_way(run, pair):
    async def work(pages):
        port = int(pages.address.rpartition(":")[2])
        async with connected(pages, 20) as silent:
            ended = await asyncio.gather(*map(rest_of, silent[:12]))
            return ended, await shown_by(port)

    limits = ListenerLimits(connections=8, handshake_s=3600, head_s=3600)
    assert at_the_port(work, run=run, limits=limits, tls=pair) == ([b""] * 12, "shown")


@both_loops
def test_connection_closed_after_its_handshake_needs_no_goodbye(run, pair):
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    trusting.maximum_version = ssl.TLSVersion.TLSv1_2  # nothing but a goodbye follows its handshake

    async def work(pages):
        port = int(pages.address.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port)) as wire,
            await asyncio.to_thread(trusting.wrap_socket, wire.dup()),
        ):
            assert await shown_by(port) == "shown"  # there is one place, and now another client has it
            wire.setblocking(False)
            return await asyncio.get_running_loop().sock_recv(wire, 1000)

    assert at_the_port(work, run=run, limits=ListenerLimits(connections=1, head_s=3600), tls=pair) == b""


def test_a_handshake_that_never_ends_is_given_up(pair):
    async def work(pages):
        async with connected(pages, 3, b"\x16\x03\x01") as silent:
            return await asyncio.gather(*map(rest_of, silent))

    assert at_the_port(work, limits=ListenerLimits(handshake_s=0.2), tls=pair) == [b""] * 3


def test_strangers_get_no_more_than_a_share_of_the_files_that_may_be_open():
    async def work(pages):
        async with connected(pages, 100, HEAD) as half:
            return await asyncio.gather(*map(rest_of, half[:30]))

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        assert at_the_port(work, limits=ListenerLimits(connections=1000, head_s=3600)) == [b""] * 30
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    "token",
    [b"\xff\xfe\x80", "tökén".encode(), "\u2028".encode(), b"a\tb", b"x" * 16_500],
    ids=["no UTF-8", "not ASCII", "an odd blank", "a tab", "too long"],
)
def test_an_odd_token_is_nobodys(token):
    status, body = at_the_port(lambda pages: send(pages, ask("/metrics", token)))
    assert (status, body["status"], body["code"]) == (401, 401, "not_authenticated")
    assert body["detail"]


@pytest.mark.parametrize(
    "request_",
    [
        *(ask("/metrics", token) for token in (b"a\x00b", b"a\x07b", b"x" * 100_000)),
        ask("/metrics", "ann", *(f"X-{number}: x" for number in range(1000))),
        b"\x16\x03\x01\r\n\r\n",
    ],
    ids=["a zero", "a bell", "a header too large", "too many headers", "TLS"],
)
def test_what_is_no_request_is_answered_as_one_and_not_logged(request_, caplog):
    status, body = at_the_port(lambda pages: send(pages, request_))
    assert (status, body["code"]) == (400, "bad_request")
    assert not caplog.records


@pytest.mark.parametrize("limit", ["1" + "0" * 30, "9" * 5000, "-1", "0", "many", "1.5", "%C2%B2", "%FF", ""])
def test_a_limit_that_is_no_sensible_number_is_refused(limit):
    status, body = at_the_port(lambda pages: send(pages, ask(f"/v1/queue?limit={limit}")))
    assert (status, body["code"]) == (400, "invalid_input")
    assert "10000" in body["hint"]


@pytest.mark.parametrize("path", ["/v1/queue?namespace=%FF", "/v1/explain/%FF/a", "/v1/explain/%ED%A0%80/a", "/v1/%FF"])
def test_address_that_is_no_text_is_an_error_of_the_client(path):
    async def work(pages):
        async with connected(pages, 1, ask(path)) as (connection,):
            return int((await rest_of(connection)).split()[1])

    assert at_the_port(work) in (200, 400, 404)


def test_every_refusal_has_a_code():
    async def work(pages):
        return [
            await pages.get("/metrics", token=""),
            await pages.get("/metrics", token="eve"),
            await pages.get("/nothing"),
            await pages.get("/v1/explain/default/nobody"),
            await pages.post("/v1/plan", b"[[["),
            await pages.post("/v1/plan", io.BytesIO(b"#" * (3 * 2**20))),
        ]

    found = [(status, body["code"]) for status, body in at_the_port(work)]
    assert found == [
        (401, "not_authenticated"),
        (403, "not_allowed"),
        (404, "not_found"),
        (404, "unknown_name"),
        (400, "invalid_input"),
        (413, "too_large"),
    ]
