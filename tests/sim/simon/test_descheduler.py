"""Which pods are moved: cases computed by hand, on nodes whose pods were put there."""

from __future__ import annotations

import pytest

from hostler.engine import find_policy
from hostler.model import Device, DeviceRequest, Guest, GuestSpec, Host, MixEntry, amounts
from hostler.sim.simon.cluster import SimonCluster
from hostler.sim.simon.descheduler import choose_victims, typical_fragments
from hostler.sim.simon.folder import SimonPod
from hostler.sim.simon.summary import summarize_stage

WHOLE_GPUS = (MixEntry(1000, 1000, 1, (), 1.0),)  # everybody wants one whole gpu and a core


def _cluster(**hosts: int) -> SimonCluster:
    found = [
        Host(
            name=name, uid=name, capacity=amounts({"cpu": 8000, "memory": 2**34}), devices=(Device("gpu", "T4"),) * gpus
        )
        for name, gpus in hosts.items()
    ]
    return SimonCluster(found, find_policy("gpu_packing"), 1, {})


def _running(name: str, host: str, cpu: int, milli: int = 0, *devices: int) -> SimonPod:
    gpus = (DeviceRequest("gpu", len(devices), milli),) if devices else ()
    spec = GuestSpec(requests=amounts({"cpu": cpu}), devices=gpus)
    return SimonPod(Guest(name=name, spec=spec, host=host, on_devices=devices))


def _victims(cluster: SimonCluster, policy: str, ratio: float = 1.0) -> list[str]:
    return [key.removeprefix("default/") for key in choose_victims(cluster.nodes, WHOLE_GPUS, policy, ratio)]


def test_fragments_add_up_to_what_the_meter_says():
    cluster = _cluster(a=2, b=4)
    cluster.adopt(
        [_running("p", "a", 1000, 300, 0), _running("q", "b", 7500, 400, 1), _running("r", "b", 100, 1000, 2)]
    )
    mix = (MixEntry(1000, 1000, 1, (), 0.5), MixEntry(500, 650, 2, ("T4",), 0.3), MixEntry(4000, 0, 0, (), 0.2))
    ours = sum(typical_fragments(node, mix, node.cpu, node.gpus) for node in cluster.nodes)
    assert ours == pytest.approx(summarize_stage("x", cluster, mix, 0, ()).fragmentation["frag"])


def test_cos_sim_moves_the_pod_least_like_what_would_be_free():
    cluster = _cluster(full=1, roomy=1)
    # full has 1000 milli-cores and 900 milli-gpus left. The cosine of share is 0.93: (1000, 100) to (2000, 1000) free;
    # that of cores is 0.99: (6000, 0) to (7000, 900).
    cluster.adopt(
        [_running("share", "full", 1000, 100, 0), _running("cores", "full", 6000), _running("r", "roomy", 1000)]
    )
    assert _victims(cluster, "cosSim") == ["share"]


def test_cos_sim_leaves_nodes_alone_that_have_cores_or_no_gpu():
    cluster = _cluster(cores=1, busy=1)
    cluster.adopt([_running("a", "cores", 1000), _running("b", "busy", 7000, 600, 0)])
    assert _victims(cluster, "cosSim") == []


def test_frag_one_pod_takes_one_of_each_node_the_worst_node_first():
    cluster = _cluster(a=2, b=2)
    cluster.adopt(
        [
            _running("a-small", "a", 100, 300, 0),  # 700 of a gpu are idle and of no use to a whole-gpu pod
            _running("b-big", "b", 100, 600, 0),
            _running("b-small", "b", 100, 100, 1),
        ]
    )
    # b: 400 + 900 are fragments; without b-small 400 are, without b-big 900. a: 700, then none.
    assert _victims(cluster, "fragOnePod") == ["b-small", "a-small"]


def test_frag_multi_pod_comes_back_to_a_node():
    cluster = _cluster(a=2, b=2)
    cluster.adopt(
        [
            _running("a-small", "a", 100, 700, 0),
            _running("b-big", "b", 100, 600, 0),
            _running("b-small", "b", 100, 100, 1),
        ]
    )
    # b: 1300, then 400 without b-small, then none; a: 300.
    assert _victims(cluster, "fragMultiPod") == ["b-small", "b-big", "a-small"]
    assert _victims(cluster, "fragOnePod") == ["b-small", "a-small"]


@pytest.mark.parametrize("policy", ["cosSim", "fragOnePod", "fragMultiPod"])
def test_no_more_are_moved_than_the_ratio_allows(policy):
    cluster = _cluster(a=2)
    cluster.adopt([_running("x", "a", 6500, 300, 0), _running("y", "a", 100, 300, 1)])
    assert len(_victims(cluster, policy, 0.5)) <= 1
    assert _victims(cluster, policy, 0.0) == []


def test_pods_whose_going_helps_nobody_stay():
    cluster = _cluster(a=1)
    cluster.adopt([_running("whole", "a", 100, 1000, 0), _running("cores", "a", 100)])
    assert _victims(cluster, "fragMultiPod") == []


def test_moved_pods_find_their_place_again():
    cluster = _cluster(a=2, b=2)
    cluster.adopt([_running("x", "a", 100, 600, 0), _running("y", "b", 100, 300, 0)])
    moved = [cluster.running[key].pod for key in choose_victims(cluster.nodes, WHOLE_GPUS, "fragOnePod", 0.5)]
    cluster.remove([pod.key for pod in moved])
    assert cluster.schedule(moved) == []
    assert {one.row for one in cluster.running.values()} == {0}
    assert sorted(cluster.nodes[1].gpus) == [1000, 1000]
