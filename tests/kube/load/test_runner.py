"""Loads in virtual time, on the API server in memory: rates are kept, and nothing is lost, doubled or left running."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient
from hostler.kube.load.objects import LABEL
from hostler.kube.load.runner import LoadRunner, clean
from hostler.kube.load.settings import Churn, Gangs, LoadSettings, Nodes, Pods
from hostler.kube.memory import ApiServer
from hostler.kube.memory.virtual_time import run_simulation
from tests.async_tests import run_with
from tests.kube.memory.fault_rates import FaultRates
from tests.kube.memory.faults import FaultyTransport

SECOND = 1_000_000_000
LOAD = LoadSettings(name="burst", namespace="default", scheduler_name="ours")


def load(**parts):
    return msgspec.structs.replace(LOAD, **parts)


def creations(server, part="/pods"):
    return [entry for entry in server.log if entry.method == "POST" and entry.path.partition("?")[0].endswith(part)]


def names(server, resource):
    return [item["metadata"]["name"] for item in server.objects(resource)]


def run(main):
    for seed in range(3):
        run_simulation(main, seed)


@run_with(run)
async def test_pods_come_at_the_rate_that_was_asked_for():
    server = ApiServer()
    await LoadRunner(KubeClient(server.transport()), load(pods=Pods(50, rate=10)), Random(0)).run()
    times = [entry.arrived for entry in creations(server)]
    assert len(times) == 50
    assert (times[-1] - times[0]) / SECOND == pytest.approx(4.9, abs=0.01)


@run_with(run)
async def test_without_a_rate_no_more_calls_are_under_way_than_there_are_places():
    server = ApiServer(latency_s=1.0)
    runner = LoadRunner(KubeClient(server.transport()), load(pods=Pods(40)), Random(0), most_in_flight=4)
    await runner.run()
    moments = sorted([(e.sent, 1) for e in creations(server)] + [(e.told_at, -1) for e in creations(server)])
    under_way = most = 0
    for _, step in moments:
        under_way += step
        most = max(most, under_way)
    assert most == 4


@run_with(run)
async def test_nodes_are_there_before_pods_come():
    server = ApiServer()
    await LoadRunner(KubeClient(server.transport()), load(nodes=Nodes(5), pods=Pods(5)), Random(0)).run()
    assert max(e.arrived for e in creations(server, "/nodes")) < min(e.arrived for e in creations(server))
    assert {item["metadata"]["labels"][LABEL] for item in server.objects("nodes")} == {"burst"}


@run_with(run)
async def test_a_gang_is_a_group_and_its_pods_in_the_form_that_the_server_has():
    for without in ((), ("scheduling.k8s.io/v1beta1",)):
        server = ApiServer(without=without)
        if without:
            server.put(_crd())
        gangs = Gangs(count=2, size=3, min=2)
        await LoadRunner(KubeClient(server.transport()), load(gangs=gangs), Random(0)).run()
        resource = f"podgroups.{'scheduling.x-k8s.io' if without else 'scheduling.k8s.io'}"
        assert names(server, resource) == ["burst-gang-0", "burst-gang-1"]
        assert len(server.objects("pods")) == 6
        spec = server.objects(resource)[0]["spec"]
        if without:
            assert spec["minMember"] == 2
            assert {p["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for p in server.objects("pods")} == {
                "burst-gang-0",
                "burst-gang-1",
            }
        else:
            assert spec["schedulingPolicy"] == {"gang": {"minCount": 2}}


def _crd():
    import yaml

    from tests.kube.deploy.clusters import ROOT

    path = ROOT / "deploy" / "kustomize" / "components" / "gang-crd" / "pod-group.yaml"
    return yaml.safe_load(path.read_text())


@run_with(run)
async def test_churn_comes_and_goes_and_leaves_nothing_when_the_time_is_over():
    server = ApiServer()
    runner = LoadRunner(KubeClient(server.transport()), load(churn=Churn(rate=5, lifetime_s=2)), Random(0))
    await runner.run(for_s=10)
    assert 49 <= runner.tally.churned <= 51
    assert runner.tally.ended == runner.tally.churned
    assert server.objects("pods") == []


@run_with(run)
async def test_throttling_server_is_waited_for_and_nothing_is_lost_or_doubled():
    server = ApiServer()
    rates = FaultRates(throttled=0.3, unanswered=0.1, failed_after=0.1, refused=0.1)
    transport = FaultyTransport(server.transport(), rates, Random(7))
    runner = LoadRunner(KubeClient(transport), load(nodes=Nodes(10), pods=Pods(40)), Random(0))
    await runner.run()
    assert transport.played["throttled"] > 0
    assert runner.tally.waits > 0
    assert (len(server.objects("nodes")), len(server.objects("pods"))) == (10, 40)
    assert (runner.tally.nodes, runner.tally.pods) == (10, 40)


@run_with(run)
async def test_what_is_refused_for_good_ends_the_load_with_a_hint():
    server = ApiServer()
    wrong = load(namespace="nowhere", pods=Pods(1000), churn=Churn(rate=5))
    with pytest.raises(HostlerError, match="nowhere") as caught:
        await LoadRunner(KubeClient(server.transport()), wrong, Random(0)).run()
    assert "create the namespace" in caught.value.hint
    assert len(creations(server)) < 100


@run_with(run)
async def test_a_load_that_is_stopped_finishes_the_gang_that_it_began():
    server = ApiServer()
    runner = LoadRunner(KubeClient(server.transport()), load(gangs=Gangs(count=100, size=7, min=7, rate=1)), Random(0))
    await runner.run(for_s=3.5)
    assert 0 < runner.tally.gangs < 10
    assert len(server.objects("pods")) == 7 * runner.tally.gangs


@run_with(run)
async def test_a_second_run_finds_what_is_there_and_cleaning_takes_only_its_own():
    server = ApiServer()
    client = KubeClient(server.transport())
    everything = load(nodes=Nodes(3), pods=Pods(5), gangs=Gangs(count=1, size=2, min=2))
    await LoadRunner(client, everything, Random(0)).run()
    again = LoadRunner(client, everything, Random(0))
    await again.run()
    assert again.tally.found == 3 + 5 + 1 + 2
    other = msgspec.structs.replace(everything, name="other")
    await LoadRunner(client, other, Random(0)).run()
    assert await clean(client, "burst", Random(0)) == {"pods": 7, "podgroups": 1, "nodes": 3}
    assert all(name.startswith("other-") for kind in ("pods", "nodes") for name in names(server, kind))
    assert len(server.objects("pods")) == 7


@run_with(run)
async def test_a_template_is_merged_and_cannot_take_the_label_away():
    server = ApiServer()
    template = {
        "metadata": {"labels": {"app": "web", LABEL: "else"}, "annotations": {"a": "b"}},
        "spec": {"priority": None, "containers": [{"name": "c", "image": "i"}]},
    }
    nodes = Nodes(1, {"status": {"allocatable": {"cpu": "2", "memory": None}}})
    await LoadRunner(KubeClient(server.transport()), load(nodes=nodes, pods=Pods(1, 0, template)), Random(0)).run()
    (pod,) = server.objects("pods")
    assert pod["metadata"]["labels"] == {"app": "web", LABEL: "burst"}
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert [container["name"] for container in pod["spec"]["containers"]] == ["c"]
    assert pod["spec"]["schedulerName"] == "ours"
    (node,) = server.objects("nodes")
    assert node["status"]["allocatable"] == {"cpu": "2", "pods": "110"}
