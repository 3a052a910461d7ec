"""The transport to a real server on this machine: TLS verified, time-outs, answers read to their end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from hostler.agent.connection.http import HttpTransport
from hostler.errors import InputError
from hostler.runtime.transport import Request, TransportError
from tests.kube.api.certificates import Authority, server_tls
from tests.ports import silent_port

HOST = "127.0.0.1"


@asynccontextmanager
async def server(handler, tls=None):
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    host = web.TCPSite(runner, HOST, 0, ssl_context=tls)
    await host.start()
    port = host._server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://{HOST}:{port}"
    finally:
        await runner.cleanup()


async def echo(request):
    body = await request.read()
    text = f"{request.method} {request.path_qs} {request.headers.get('Authorization', '-')} {body.decode()}"
    return web.Response(text=text, headers={"Retry-After": "7"})


def ask(handler, request, *, tls=None, authority_file=None):
    async def run():
        async with server(handler, tls) as address:
            transport = HttpTransport(address, authority_file=authority_file)
            try:
                return await transport.send(request)
            finally:
                await transport.close()

    return asyncio.run(run())


def test_a_request_arrives_with_its_credential_and_body():
    response = ask(echo, Request(method="POST", path="/agent/v1/report?a=1", body=b"{}", credential="c"))
    assert response.status == 200
    assert response.body == b"POST /agent/v1/report?a=1 Bearer c {}"
    assert response.retry_after_s == 7.0


def test_a_redirect_is_not_followed():
    async def elsewhere(request):
        raise web.HTTPFound("http://example.invalid/")

    assert ask(elsewhere, Request(method="GET", path="/")).status == 302


def test_a_server_that_does_not_answer_in_time_is_given_up():
    async def sleepy(request):
        await asyncio.sleep(30)

    with pytest.raises(TransportError, match="did not answer"):
        ask(sleepy, Request(method="GET", path="/", timeout_s=0.2))


def test_a_server_that_is_not_there_is_an_error_that_may_pass():
    async def run(address):
        transport = HttpTransport(address)
        try:
            with pytest.raises(TransportError, match="cannot be reached") as caught:
                await transport.send(Request(method="GET", path="/"))
            assert caught.value.retryable
        finally:
            await transport.close()

    with silent_port() as port:
        asyncio.run(run(f"http://{HOST}:{port}"))


def test_a_certificate_is_believed_only_if_the_authority_is(tmp_path):
    authority, file = Authority(), tmp_path / "ca.pem"
    file.write_bytes(authority.pem)
    tls = server_tls(authority.sign("server", HOST))
    request = Request(method="GET", path="/")
    assert ask(echo, request, tls=tls, authority_file=file).status == 200
    with pytest.raises(TransportError, match="cannot be reached"):
        ask(echo, request, tls=tls)
    other = server_tls(authority.sign("server", "other.example"))
    with pytest.raises(TransportError, match="cannot be reached"):
        ask(echo, request, tls=other, authority_file=file)


@pytest.mark.parametrize("server", ["", "host", "ftp://host", "http://10.0.0.1:80", "https://u:p@host", "http://h"])
def test_an_address_that_is_wrong_or_not_safe_is_refused(server):
    with pytest.raises(InputError) as caught:
        HttpTransport(server)
    assert caught.value.hint


def test_a_file_without_certificates_is_refused(tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(InputError, match="no certificates"):
        HttpTransport("https://host", authority_file=tmp_path / "ca.pem")
