"""Absurd pods and nodes that a real API server accepts: they get a reason, and others are not affected."""

from __future__ import annotations

import pytest

from hostler.kube.api.failures import ApiError
from tests.kube.real.real_cluster import RealCluster
from tests.wait import wait_until

_MOST_ANNOTATIONS = 256 * 1024  # bytes of keys and values that the server takes


def _container(name):
    return {"name": name, "image": "none", "resources": {"requests": {"cpu": "1m"}}}


def test_pods_as_large_as_the_server_takes_them_are_placed_like_any_other(cluster):
    cluster.add_nodes(2)
    cluster.start()
    labels = {f"label-{number}": "v" * 63 for number in range(2000)}
    tolerations = [{"key": f"key-{number}", "operator": "Exists"} for number in range(2000)]
    cluster.create(
        cluster.pod("annotated", metadata={"annotations": {"a": "x" * (_MOST_ANNOTATIONS - 1)}}),
        cluster.pod("labelled", metadata={"labels": labels}),
        cluster.pod("tolerant", tolerations=tolerations),
        cluster.pod("crowded", containers=[_container(f"c{number}") for number in range(300)]),
        cluster.pod("plain"),
    )
    with pytest.raises(ApiError, match="Too long"):
        cluster.create(cluster.pod("too-large", metadata={"annotations": {"a": "x" * _MOST_ANNOTATIONS}}))
    cluster.wait_for(5)
    cluster.settle()


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ({"example.com/unheard-of": "1"}, "example.com/unheard-of"),
        ({"cpu": "9223372036854775807"}, "cpu"),
        ({"memory": "9223372036854775807"}, "memory"),
        ({"memory": "9223372036854775807Ei"}, "memory"),
        ({"example.com/vast": "9223372036854775807"}, "example.com/vast"),
        ({"cpu": "1", "memory": "1m"}, ""),
    ],
)
def test_impossible_pod_gets_a_reason_and_the_others_are_placed(bad_cluster, requests, words):
    cluster = bad_cluster
    number = len(cluster.pods())
    cluster.create(cluster.pod(f"odd-{number}", requests=requests), cluster.pod(f"plain-{number}", "1m"))
    wait_until(lambda: f"plain-{number}" in cluster.bound())
    if not words:
        wait_until(lambda: f"odd-{number}" in cluster.bound())
        return
    wait_until(lambda: any(cluster.why(f"odd-{number}")))
    assert words in cluster.why(f"odd-{number}")[1]
    notes = wait_until(
        lambda: [
            one["note"] for one in cluster.events("FailedScheduling") if one["regarding"]["name"] == f"odd-{number}"
        ]
    )
    assert words in notes[0]
    assert cluster.running[-1].process.poll() is None


@pytest.fixture(scope="module")
def bad_cluster(control_plane, tmp_path_factory):
    """One scheduler for all tests of this module."""
    with control_plane.api() as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "bad-input"}})
    made = RealCluster(control_plane, "bad-input", tmp_path_factory.mktemp("bad-input"))
    made.add_nodes(2)
    made.start()
    yield made
    made.check({})
    made.close()


def test_nodes_with_absurd_amounts_are_named_and_others_are_used(cluster):
    running = cluster.start()
    (good,) = cluster.add_nodes(1)
    cluster.add_node({"cpu": "0", "memory": "0", "pods": "0"})
    cluster.add_node(None)
    vast = cluster.add_node({"cpu": "2", "memory": "8Gi", "pods": "110", "example.com/vast": "9223372036854775807"})
    vaster = cluster.add_node({"cpu": "1000000000000000000k", "memory": "1000000000000000000Gi", "pods": "110"})
    with pytest.raises(ApiError, match="must be greater than or equal to 0"):
        cluster.add_node({"cpu": "-1", "memory": "1Gi", "pods": "110"})
    cluster.add_pods(6, cpu="300m")
    cluster.wait_for(6)
    assert set(cluster.settle().values()) == {good}
    for node in (vast, vaster):
        running.until(f"node {node}: status.allocatable")  # an administrator sees what is wrong with it, and where
    assert running.process.poll() is None
    cluster.add_node({"cpu": "64", "memory": "1Ti", "pods": "110"})
    cluster.create(cluster.pod("larger", "32"))
    cluster.wait_for(1, "larger")
