"""Commands with --via give the same answers as without."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from hostler.errors import HostlerError, InputError, UnavailableError
from hostler.kube.api.access import read_access
from hostler.kube.live.via import ask_scheduler
from tests.cli.cli_in_process import hostler
from tests.kube.live.objects import pod, write
from tests.kube.service.test_real_cluster import scheduling
from tests.wait import until

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: me, user: {token: secret}}]
"""


def both_ways(cluster, *questions, is_there=(), has_said=()):
    """Run each query without and with a scheduler that runs, once it has placed or rejected the named pods."""
    on = ("--kubeconfig", str(cluster.kubeconfig()))

    def nodes():
        with cluster.api() as api:
            items = api.call("GET", "/api/v1/namespaces/default/pods")["items"]
        return {item["metadata"]["name"]: item["spec"].get("nodeName") for item in items}

    def is_refused(name):
        with cluster.api() as api:
            status = api.call("GET", f"/api/v1/namespaces/default/pods/{name}")["status"]
        return any(one["type"] == "PodScheduled" for one in status.get("conditions", ()))

    async def main():
        async with scheduling(cluster) as address:
            for name in is_there:
                await until(lambda name=name: nodes().get(name))
            for name in has_said:
                await until(lambda name=name: is_refused(name))
            plain = [await asyncio.to_thread(hostler, *words, *on) for words in questions]
            asked = [await asyncio.to_thread(hostler, *words, *on, "--via", address) for words in questions]
        return zip(plain, asked, strict=True)

    return asyncio.run(main())


def test_explain_prints_the_same_with_and_without_asking_the_scheduler(cluster, create):
    create("huge", "100")
    create("placed", "2")
    create("theirs", "1", scheduler="another", nodeSelector={"kubernetes.io/hostname": "node-2"})
    questions = [("explain", name) for name in ("pod/huge", "placed", "theirs")]
    pairs = list(both_ways(cluster, *questions, is_there=["placed"]))
    for plain, asked in pairs:
        assert asked.code == 0, asked.err
        assert asked.lines == plain.lines
    assert pairs[1][1].lines[0].startswith("placed (cpu 2) already runs on node-")
    assert pairs[2][1].lines[0].startswith("theirs (cpu 1) goes to node-2, score ")


def test_candidates_and_capacity_are_the_same_with_and_without_via(cluster, create, tmp_path):
    create("settled", "4", node="node-0")
    create("huge", "100")
    file = write(tmp_path / "p.json", pod("web", "2"))
    candidates, capacity = both_ways(
        cluster, ("kube", "candidates", "huge"), ("kube", "capacity", "-f", file, "-o", "json")
    )
    assert candidates[0].lines == candidates[1].lines
    assert (candidates[1].code, capacity[1].code) == (1, 0), capacity[1].err
    for key in ("pod", "fits", "stopped_at_max", "per_node"):
        assert capacity[0].json[key] == capacity[1].json[key]
    assert capacity[1].json["fits"] == 10


def test_capacity_through_the_scheduler_stops_at_the_limit(cluster, tmp_path):
    file = write(tmp_path / "p.json", pod("web", "1"))
    ((plain, asked),) = both_ways(cluster, ("kube", "capacity", "-f", file, "--max", "5"))
    assert plain.lines[:2] == asked.lines[:2]
    assert asked.lines[0].startswith("at least 5 more pods like web")


@pytest.mark.parametrize(
    ("via", "target"),
    [
        ("team/scheduler", "scheduler"),
        ("team/scheduler:http", "scheduler:http"),
        ("team/https:scheduler:8443", "https:scheduler:8443"),
        ("team/https:scheduler", "https:scheduler:"),
    ],
)
def test_a_service_is_reached_through_the_proxy_also_where_it_serves_tls(via, target, tmp_path):
    asked, _ = asked_of({"pods": [], "total": 0}, tmp_path, via)
    assert asked == [f"/api/v1/namespaces/team/services/{target}/proxy/v1/queue"]


def asked_of(answer, tmp_path, via="", path="/v1/queue"):
    """Query a server with this answer; return the requested paths, and the result."""
    asked = []

    async def handle(request):
        asked.append(request.raw_path)
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    async def main():
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        (tmp_path / "config").write_text(KUBECONFIG.replace("PORT", str(port)))
        try:
            return await ask_scheduler(read_access(tmp_path / "config"), via or f"http://127.0.0.1:{port}", path)
        except HostlerError as error:
            return error
        finally:
            await runner.cleanup()

    return asked, asyncio.run(main())


@pytest.mark.parametrize("via", ["", "team/scheduler"], ids=["an address", "a service"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_for_the_token_would_go_along(via, status, tmp_path):
    asked, error = asked_of(web.Response(status=status, headers={"Location": "/elsewhere"}), tmp_path, via)
    assert len(asked) == 1
    assert isinstance(error, UnavailableError)
    assert f"{status}: it redirects" in error.message


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
DECISION = {"guest": "g", "uid": "u", "seq": 1, "at": 1, "policy": "p", "state": "s"}
ROW = dict.fromkeys(("age_s", "attempts", "next_try", "nominated", "reason"))


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"<html>", DEEP, b'{"pods":"\xff\xfe"}', b"\xff", b"5"])
@pytest.mark.parametrize("path", ["/v1/queue", "/v1/plan", "/v1/explain/default/web"])
def test_what_no_scheduler_would_answer_is_reported_as_that(body, path, tmp_path):
    _, error = asked_of(web.Response(body=body), tmp_path, path=path)
    assert isinstance(error, UnavailableError)
    assert error.message.endswith("the server is not a Hostler scheduler")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/v1/queue", {}),
        ("/v1/queue", {"pods": [5], "total": 1}),
        ("/v1/queue", {"pods": [{**ROW, "namespace": "n", "name": "a", "state": "s", "priority": "high"}], "total": 1}),
        ("/v1/plan", {"pods": {}}),
        ("/v1/plan", {"pods": [{"name": "a"}]}),
        ("/v1/explain/n/a", {"decision": 5, "hosts": [1], "cure": []}),
        ("/v1/explain/n/a", {"decision": DECISION, "as_of": "now"}),
        ("/v1/explain/n/a", {"decision": {**DECISION, "host": 5}, "as_of": "now"}),
        ("/v1/explain/n/a", {"decision": {**DECISION, "host": None}, "as_of": "now", "notes": 5}),
    ],
)
def test_answers_of_another_shape_are_no_schedulers(path, data, tmp_path):
    _, error = asked_of(data, tmp_path, path=path)
    assert isinstance(error, UnavailableError), error


def test_an_answer_that_never_ends_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("hostler.kube.live.via._MAX_ANSWER", 2**20)

    async def endless():
        while True:
            yield b" " * 2**16

    _, error = asked_of(web.Response(body=endless()), tmp_path)
    assert isinstance(error, UnavailableError)
    assert "too long for a Hostler scheduler" in error.message


@pytest.mark.parametrize("body", [DEEP, b'{"detail":"\xff\xfe"}', b"[]", b'{"detail":5}', b"\xff", b""])
def test_failure_with_an_unreadable_body_is_still_a_failure(body, tmp_path):
    _, error = asked_of(web.Response(status=500, body=body), tmp_path)
    assert isinstance(error, UnavailableError)
    assert ": 500: " in error.message


def test_the_words_of_a_failure_cannot_move_the_cursor(tmp_path):
    _, error = asked_of(web.json_response({"detail": "\x1b[31mred", "hint": "a\nb"}, status=500), tmp_path)
    assert (error.message + error.hint).isprintable()


@pytest.mark.parametrize(
    "via",
    ["http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:x", "https://", "https://:1", "http://127.0.0.1:0",
     "http://127.0.0.1:1?a=b", "http://127.0.0.1:1#a", "https://a b", "https://a\n.b"],
)  # fmt: skip
def test_what_is_no_address_is_refused(via, tmp_path):
    asked, error = asked_of({}, tmp_path, via)
    assert not asked
    assert isinstance(error, InputError)
    assert "is not an address" in error.message


def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path):
    _, error = asked_of({}, tmp_path, "http://ann:hush@127.0.0.1:1")
    assert isinstance(error, InputError)
    assert "hush" not in error.message + error.hint


@pytest.mark.parametrize("via", ["https://a..b:1", "https://[v1.x]:1", f"https://{'a' * 300}:1"])
def test_an_address_that_leads_nowhere_is_not_answered(via, tmp_path):
    _, error = asked_of({}, tmp_path, via)
    assert isinstance(error, InputError | UnavailableError)


@pytest.mark.parametrize("via", ["scheduler", "team/", "team/https:", "team/a:b:c", "team/a/b", "a/..", "../x"])
def test_what_names_no_service_is_refused(via, cluster):
    found = hostler("kube", "queue", "--via", via, "--kubeconfig", cluster.kubeconfig())
    assert found.code == 2
    assert "is neither an address nor a service" in found.error
