"""Authorization of the pages: probes are open, everything else needs the API server's consent."""

from __future__ import annotations

import asyncio

import pytest

from hostler.errors import InputError
from hostler.kube.api.client import KubeClient
from hostler.kube.service.server import check_listen
from tests.kube.service.service_in_process import node, scheduling, server_with

PATHS = (
    "/metrics",
    "/debug/state",
    "/v1/queue",
    "/v1/explain/default/a",
    "/v1/candidates/default/a",
    "/v1/decisions/x",
)


def visit(server, *requests, **options):
    """Send requests one after the other, each a path with its token, and return the answers."""

    async def main():
        async with scheduling(server, **options) as pages:
            return [await pages.get(path, token) for path, token in requests]

    return asyncio.run(main())


def reviews_of(server, kind):
    return [entry for entry in server.log if kind in entry.path]


def test_probes_need_no_token():
    answers = visit(server_with(node("n")), ("/livez", ""), ("/readyz", ""), ("/healthz", ""))
    assert answers == [(200, "ok"), (200, "ok, leading"), (200, "ok")]


@pytest.mark.parametrize("path", PATHS)
def test_every_other_page_needs_a_token(path):
    ((status, body),) = visit(server_with(), (path, ""))
    assert status == 401
    assert body["detail"] == "the request has no token"
    assert "Bearer" in body["hint"]


def test_a_token_that_the_api_server_does_not_know_is_refused():
    ((status, body),) = visit(server_with(), ("/metrics", "made-up"))
    assert (status, body["detail"]) == (401, "the API server rejects the token: invalid bearer token")


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/metrics", "get /metrics"),
        ("/debug/state", "get /debug/state"),
        ("/v1/explain/team-a/web", "get pods in namespace team-a"),
        ("/v1/candidates/team-a/web", "get pods in namespace team-a"),
        ("/v1/queue", "list pods everywhere"),
        ("/v1/queue?namespace=team-a", "list pods in namespace team-a"),
        ("/v1/decisions/unknown", "get pods everywhere"),
    ],
)
def test_a_user_without_the_right_is_refused_and_the_right_is_named(path, right):
    ((status, body),) = visit(server_with(), (path, "eve"))
    assert status == 403
    assert body["detail"] == f"user eve may not {right}"


def test_nobody_plans_without_the_right_to_see_all_pods():
    async def main():
        async with scheduling(server_with()) as pages:
            return await pages.post("/v1/plan", b"{}", token="eve")

    status, body = asyncio.run(main())
    assert (status, body["detail"]) == (403, "user eve may not list pods everywhere")


def test_an_answer_of_the_api_server_is_remembered():
    server = server_with()
    visit(server, ("/metrics", "ann"), ("/metrics", "ann"), ("/metrics", "eve"), ("/metrics", "eve"))
    assert len(reviews_of(server, "tokenreviews")) == 2
    assert len(reviews_of(server, "subjectaccessreviews")) == 2


def test_nobody_gets_in_while_the_api_server_cannot_be_asked():
    server = server_with()

    async def main():
        broken = KubeClient(server.transport())
        await broken.close()
        async with scheduling(server, review_client=broken) as pages:
            return await pages.get("/metrics"), await pages.get("/livez", token="")

    (status, body), probe = asyncio.run(main())
    assert status == 503
    assert "cannot be reached" in body["detail"]
    assert probe == (200, "ok")


def test_proxy_headers_are_not_trusted_and_token_may_use_another_one():
    async def main():
        async with scheduling(server_with()) as pages:
            proxied = {"X_Remote_User": "ann", "X_Forwarded_For": "10.0.0.1"}
            return [
                await pages.get("/metrics", "", **proxied),
                await pages.get("/metrics", "", Hostler_Authorization="Bearer ann", **proxied),
            ]

    refused, served = asyncio.run(main())
    assert refused[0] == 401
    assert served[0] == 200


def test_unknown_page_is_404_only_for_authorized_callers():
    answers = visit(server_with(), ("/nothing", ""), ("/nothing", "ann"))
    assert [status for status, _ in answers] == [401, 404]


@pytest.mark.parametrize("listen", ["0.0.0.0:10359", "[::]:10359", "192.0.2.1:1", "example.org:80"])
def test_an_address_that_others_reach_needs_tls_or_a_word(listen):
    with pytest.raises(InputError, match="clear text"):
        check_listen(listen, has_tls=False, is_insecure=False)
    assert check_listen(listen, has_tls=True, is_insecure=False)
    assert check_listen(listen, has_tls=False, is_insecure=True)


@pytest.mark.parametrize("listen", ["", "10359", ":10359", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"])
def test_what_is_no_address_is_refused(listen):
    with pytest.raises(InputError, match="not a valid listen address"):
        check_listen(listen, has_tls=True, is_insecure=True)


def test_loopback_needs_neither():
    assert check_listen("127.0.0.1:10359", has_tls=False, is_insecure=False) == ("127.0.0.1", 10359)
    assert check_listen("[::1]:1", has_tls=False, is_insecure=False) == ("::1", 1)


def test_with_a_certificate_the_pages_come_over_tls(tmp_path):
    from tests.kube.api.certificates import Authority

    pair = Authority().sign("scheduler", "127.0.0.1")
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)

    async def main():
        async with (
            scheduling(server_with(), tls=(tmp_path / "tls.crt", tmp_path / "tls.key")) as pages,
            pages.session.get(f"{pages.address}/livez", ssl=False) as answer,
        ):
            return pages.address, await answer.text()

    address, text = asyncio.run(main())
    assert address.startswith("https://")
    assert text == "ok"


def test_a_certificate_that_cannot_be_read_is_named(tmp_path):
    async def main():
        async with scheduling(server_with(), tls=(tmp_path / "no.crt", tmp_path / "no.key")):
            pass

    with pytest.raises(InputError, match=r"no\.crt"):
        asyncio.run(main())
