"""Extenders receive the objects exactly as the API server has them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hostler.kube.api.client import KubeClient
from hostler.kube.api.resources import PODS
from hostler.kube.api.store import ObjectUpdate
from hostler.kube.extender.extenders import Extenders
from hostler.kube.extender.live_answers import answers_from
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.memory import ApiServer
from hostler.kube.settings import ExtenderSettings
from hostler.manifests import read_pod
from hostler.model import Answered, Ask
from hostler.runtime.clock import SteadyClock
from tests.kube.extender.clusters import node_json, pod_json


def _answers(server: ApiServer, *asks: Ask, is_capable: bool) -> tuple[list[Answered], list[dict[str, Any]]]:
    """Call an extender that keeps all nodes about a known pod; return its answer and what it received."""
    sent: list[dict[str, Any]] = []

    async def call(extender: ExtenderSettings, verb: str, body: bytes) -> bytes:
        sent.append(json.loads(body))
        return json.dumps({"NodeNames": sent[-1]["NodeNames"], "Nodes": sent[-1]["Nodes"]}).encode()

    async def run() -> list[Answered]:
        cluster = WatchedCluster({})
        cluster.take(PODS, [ObjectUpdate(("default", "p"), None, read_pod(pod_json("p")))], 0)
        cluster.open(0)
        client = KubeClient(server.transport())
        settings = ExtenderSettings(url_prefix="http://a", filter_verb="f", is_node_cache_capable=is_capable)
        answer = answers_from(Extenders([settings], call), cluster, client, SteadyClock())
        found = [await answer(ask) for ask in asks]
        await client.close()
        return found

    return asyncio.run(run()), sent


def _ask(uid: str, *hosts: str) -> Ask:
    return Ask(uid, "p", 1, "extenders", 3, hosts, 0)


def test_the_whole_pod_and_whole_nodes_are_sent():
    server = ApiServer(latency_s=0.0)
    server.put(pod_json("p", hostname="odd-field"))
    for name in ("a", "b"):
        server.put(node_json(name))
    (first, second), sent = _answers(server, _ask("uid-p", "a", "gone"), _ask("uid-p", "a", "b"), is_capable=False)
    assert sent[0]["Pod"]["spec"]["hostname"] == "odd-field"
    assert [item["metadata"]["name"] for item in sent[0]["Nodes"]["items"]] == ["a"]
    assert sent[0]["Nodes"]["items"][0]["status"]["allocatable"]["cpu"] == "32"
    assert first.scores == (("a", 0),)
    assert second.scores == (("a", 0), ("b", 0))
    assert any("/api/v1/nodes" in entry.path for entry in server.log)


def test_an_extender_that_knows_nodes_is_sent_their_names():
    server = ApiServer(latency_s=0.0)
    server.put(pod_json("p"))
    (answer,), sent = _answers(server, _ask("uid-p", "a", "b"), is_capable=True)
    assert (sent[0]["Nodes"], sent[0]["NodeNames"]) == (None, ["a", "b"])
    assert answer.error == ""
    assert not any("/api/v1/nodes" in entry.path for entry in server.log)


def test_a_pod_that_is_gone_or_another_one_is_not_asked_about():
    server = ApiServer(latency_s=0.0)
    sent_pod = pod_json("p")
    sent_pod["metadata"]["uid"] = "another"
    server.put(sent_pod)
    (gone, other), sent = _answers(server, _ask("unheard-of", "a"), _ask("uid-p", "a"), is_capable=True)
    assert (gone.error, other.error) == ("the pod is gone", "another pod has its name by now")
    assert sent == []
