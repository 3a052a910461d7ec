"""Commands that ask a running scheduler give the answers that they give without one."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from hostler.kube.api.access import read_access
from hostler.kube.live.via import ask_scheduler
from tests.cli.running import hostler
from tests.kube.live.objects import pod, write
from tests.kube.service.serving import until
from tests.kube.service.test_real_cluster import scheduling

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: me, user: {token: secret}}]
"""


def both_ways(cluster, *questions, is_there=(), has_said=()):
    """Ask each question without and with a scheduler that runs, once it has placed or refused the pods named."""
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
    create("theirs", "1", scheduler="somebody", nodeSelector={"kubernetes.io/hostname": "node-2"})
    questions = [("explain", name) for name in ("pod/huge", "placed", "theirs")]
    pairs = list(both_ways(cluster, *questions, is_there=["placed"]))
    for plain, asked in pairs:
        assert asked.code == 0, asked.err
        assert asked.lines == plain.lines
    assert pairs[1][1].lines[0].startswith("placed (cpu 2) already runs on node-")
    assert pairs[2][1].lines[0].startswith("theirs (cpu 1) goes to node-2, score ")


def test_candidates_and_capacity_are_the_same_with_and_without_asking_the_scheduler(cluster, create, tmp_path):
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
    asked = []

    async def answer(request):
        asked.append(request.raw_path)
        return web.json_response({})

    async def main():
        app = web.Application()
        app.router.add_get("/{rest:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        (tmp_path / "config").write_text(KUBECONFIG.replace("PORT", str(runner.addresses[0][1])))
        try:
            await ask_scheduler(read_access(tmp_path / "config"), via, "/v1/queue")
        finally:
            await runner.cleanup()

    asyncio.run(main())
    assert asked == [f"/api/v1/namespaces/team/services/{target}/proxy/v1/queue"]


@pytest.mark.parametrize("via", ["scheduler", "team/", "team/https:", "team/a:b:c", "team/a/b"])
def test_what_names_no_service_is_refused(via, cluster):
    found = hostler("kube", "queue", "--via", via, "--kubeconfig", cluster.kubeconfig())
    assert found.code == 2
    assert "is neither an address nor a service" in found.error
