"""Pods and nodes that no sane person makes, and that a real API server takes: explained, and never a harm to others."""

from __future__ import annotations

import pytest

from hostler.kube.api.failures import ApiError
from tests.kube.real.stage import Stage
from tests.wait import wait_until

_MOST_ANNOTATIONS = 256 * 1024  # bytes of keys and values that the server takes


def _container(name):
    return {"name": name, "image": "none", "resources": {"requests": {"cpu": "1m"}}}


def test_pods_as_large_as_the_server_takes_them_are_placed_like_any_other(stage):
    stage.add_nodes(2)
    stage.start()
    labels = {f"label-{number}": "v" * 63 for number in range(2000)}
    tolerations = [{"key": f"key-{number}", "operator": "Exists"} for number in range(2000)]
    stage.create(
        stage.pod("annotated", metadata={"annotations": {"a": "x" * (_MOST_ANNOTATIONS - 1)}}),
        stage.pod("labelled", metadata={"labels": labels}),
        stage.pod("tolerant", tolerations=tolerations),
        stage.pod("crowded", containers=[_container(f"c{number}") for number in range(300)]),
        stage.pod("plain"),
    )
    with pytest.raises(ApiError, match="Too long"):
        stage.create(stage.pod("too-large", metadata={"annotations": {"a": "x" * _MOST_ANNOTATIONS}}))
    stage.wait_for(5)
    stage.settle()


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
def test_a_pod_that_asks_for_the_impossible_is_told_so_and_the_others_are_placed(bad_stage, requests, words):
    stage = bad_stage
    number = len(stage.pods())
    stage.create(stage.pod(f"odd-{number}", requests=requests), stage.pod(f"plain-{number}", "1m"))
    wait_until(lambda: f"plain-{number}" in stage.bound())
    if not words:
        wait_until(lambda: f"odd-{number}" in stage.bound())
        return
    wait_until(lambda: any(stage.why(f"odd-{number}")))
    assert words in stage.why(f"odd-{number}")[1]
    notes = wait_until(
        lambda: [one["note"] for one in stage.events("FailedScheduling") if one["regarding"]["name"] == f"odd-{number}"]
    )
    assert words in notes[0]
    assert stage.running[-1].process.poll() is None


@pytest.fixture(scope="module")
def bad_stage(control_plane, tmp_path_factory):
    """One scheduler for all that is asked of it."""
    with control_plane.api() as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "bad-input"}})
    made = Stage(control_plane, "bad-input", tmp_path_factory.mktemp("bad-input"))
    made.add_nodes(2)
    made.start()
    yield made
    made.check({})
    made.close()


def test_nodes_with_absurd_amounts_are_named_and_left_alone_and_the_others_are_used(stage):
    running = stage.start()
    (good,) = stage.add_nodes(1)
    stage.add_node({"cpu": "0", "memory": "0", "pods": "0"})
    stage.add_node(None)
    vast = stage.add_node({"cpu": "2", "memory": "8Gi", "pods": "110", "example.com/vast": "9223372036854775807"})
    vaster = stage.add_node({"cpu": "1000000000000000000k", "memory": "1000000000000000000Gi", "pods": "110"})
    with pytest.raises(ApiError, match="must be greater than or equal to 0"):
        stage.add_node({"cpu": "-1", "memory": "1Gi", "pods": "110"})
    stage.add_pods(6, cpu="300m")
    stage.wait_for(6)
    assert set(stage.settle().values()) == {good}
    for node in (vast, vaster):
        running.until(f"node {node}: status.allocatable")  # an administrator sees what is wrong with it, and where
    assert running.process.poll() is None
    stage.add_node({"cpu": "64", "memory": "1Ti", "pods": "110"})
    stage.create(stage.pod("larger", "32"))
    stage.wait_for(1, "larger")
