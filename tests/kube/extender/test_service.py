"""The verbs of our extender, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.kube.api.failures import ApiError
from hostler.kube.extender.adviser import Adviser
from hostler.kube.extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderPreemptionArgs,
    MetaPod,
    MetaVictims,
    NodeList,
    Victims,
)
from hostler.kube.extender.service import NOT_READY, ExtenderService
from hostler.manifests import Pod, read_pod
from hostler.runtime.transport import TransportError
from tests.kube.extender.clusters import engine_with, node_json, pod_json


class _FakeCluster:
    """A clock, and a cluster that accepts or rejects binds."""

    def __init__(self) -> None:
        self.time = 0
        self.bound: list[tuple[str, str, Mapping[str, str]]] = []
        self.refusal: Exception | None = None
        self.pods: dict[str, Pod] = {}

    def now(self) -> int:
        return self.time

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.bound.append((uid, node, annotations))

    async def find_pod(self, namespace: str, name: str) -> Pod:
        if name not in self.pods:
            raise ApiError(404, "NotFound", f"pods {name} not found")
        return self.pods[name]


def _service(cluster: _FakeCluster, engine: Engine | None = None, *, most: int = 1) -> ExtenderService:
    service = ExtenderService(cluster, cluster.bind, cluster.find_pod, nodes_per_filter=most)
    service.adviser = Adviser(engine) if engine is not None else None
    return service


def _ask(name: str, nodes: list[str], **pod: Any) -> ExtenderArgs:
    return ExtenderArgs(Pod=pod_json(name, **pod), NodeNames=nodes)


def _bind(service: ExtenderService, name: str, node: str) -> ExtenderBindingResult:
    return asyncio.run(service.bind(ExtenderBindingArgs(name, "default", f"uid-{name}", node)))


def test_only_the_best_node_stays_and_the_others_say_why_not():
    service = _service(_FakeCluster(), engine_with(a=1, b=8, c=0))
    result = service.filter(_ask("p", ["a", "b", "c", "d"], milli=500))
    assert result.Error == ""
    assert result.NodeNames is not None
    assert len(result.NodeNames) == 1
    (kept,) = result.NodeNames
    (other,) = {"a", "b"} - {kept}
    assert result.FailedNodes is not None
    assert result.FailedAndUnresolvableNodes is not None
    assert result.FailedNodes[other].startswith("score ")
    assert result.FailedNodes["d"] == "the node is not known yet"
    assert set(result.FailedAndUnresolvableNodes) == {"c"}


def test_whole_nodes_are_answered_with_whole_nodes():
    service = _service(_FakeCluster(), engine_with(a=1, b=0))
    items = [node_json("a", 1), node_json("b")]
    result = service.filter(ExtenderArgs(Pod=pod_json("p", milli=500), Nodes=NodeList(items)))
    assert result.NodeNames is None
    assert result.Nodes == NodeList([items[0]])


def test_two_pods_asked_about_before_either_is_seen_get_different_gpus():
    cluster = _FakeCluster()
    service = _service(cluster, engine_with(a=2))
    for name in ("p", "q"):
        assert service.filter(_ask(name, ["a"], milli=1000)).NodeNames == ["a"]
    assert service.filter(_ask("r", ["a"], milli=1000)).NodeNames == []
    assert _bind(service, "p", "a").Error == ""
    assert _bind(service, "q", "a").Error == ""
    key = "alibabacloud.com/gpu-index"
    assert cluster.bound == [("uid-p", "a", {key: "0"}), ("uid-q", "a", {key: "1"})]
    service.forget("uid-p")  # the cluster shows where it is; here it is simply gone
    assert service.filter(_ask("r", ["a"], milli=1000)).NodeNames == ["a"]


def test_what_was_expected_and_never_came_is_given_up_after_a_while():
    cluster = _FakeCluster()
    service = _service(cluster, engine_with(a=1))
    assert service.filter(_ask("p", ["a"], milli=1000)).NodeNames == ["a"]
    assert service.filter(_ask("q", ["a"], milli=1000)).NodeNames == []
    cluster.time = 60 * 10**9
    assert service.filter(_ask("q", ["a"], milli=1000)).NodeNames == ["a"]


def test_a_pod_without_gpus_is_bound_without_annotations():
    cluster = _FakeCluster()
    service = _service(cluster, engine_with("spread", a=0))
    service.filter(_ask("p", ["a"]))
    assert _bind(service, "p", "a") == ExtenderBindingResult()
    assert cluster.bound == [("uid-p", "a", {})]


def test_scores_go_from_0_to_10():
    service = _service(_FakeCluster(), engine_with("spread", a=0, b=0, c=0))
    service.filter(_ask("big", ["a"], cpu="20"))
    service.filter(_ask("small", ["b"], cpu="5"))
    found = {one.Host: one.Score for one in service.prioritize(_ask("p", ["a", "b", "c", "d"]))}
    assert (found["a"], found["c"], found["d"]) == (0, 10, 0)
    assert 0 < found["b"] < 10
    assert [one.Score for one in service.prioritize(_ask("p", ["c"]))] == [10]


def test_several_nodes_may_be_left_and_then_nothing_is_expected():
    service = _service(_FakeCluster(), engine_with("spread", a=0, b=0, c=0), most=2)
    assert service.filter(_ask("p", ["a", "b", "c"])).NodeNames == ["a", "b"]
    assert service.adviser is not None
    assert service.adviser.assumed_count == 0


def test_a_bind_of_a_pod_that_nobody_asked_about_looks_the_pod_up():
    cluster = _FakeCluster()
    service = _service(cluster, engine_with(a=2))
    assert "not found" in _bind(service, "p", "a").Error
    cluster.pods["p"] = read_pod(pod_json("p", milli=1000))
    assert _bind(service, "p", "a").Error == ""
    assert cluster.bound == [("uid-p", "a", {"alibabacloud.com/gpu-index": "0"})]
    cluster.pods["q"] = read_pod({**pod_json("q"), "metadata": {"name": "q", "uid": "another"}})
    assert "another uid" in _bind(service, "q", "a").Error


@pytest.mark.parametrize(
    ("refusal", "is_expected"),
    [
        (ApiError(409, "Conflict", "already assigned"), False),
        (ApiError(504, "Timeout", "too slow"), True),
        (TransportError("cut", may_have_acted=True), True),
    ],
)
def test_a_bind_that_failed_is_reported_and_an_unknown_outcome_still_counts(refusal, is_expected):
    cluster = _FakeCluster()
    service = _service(cluster, engine_with(a=1))
    service.filter(_ask("p", ["a"], milli=1000))
    cluster.refusal = refusal
    assert _bind(service, "p", "a").Error != ""
    assert service.adviser is not None
    assert bool(service.adviser.assumed_count) is is_expected


def test_preemption_is_agreed_with():
    service = _service(_FakeCluster())
    meta = {"a": MetaVictims([MetaPod("u")], 1)}
    assert service.preempt(ExtenderPreemptionArgs(NodeNameToMetaVictims=meta)).NodeNameToMetaVictims == meta
    whole = {"a": Victims([pod_json("v"), {}, {"metadata": 3}], 2)}
    found = service.preempt(ExtenderPreemptionArgs(NodeNameToVictims=whole)).NodeNameToMetaVictims
    assert found == {"a": MetaVictims([MetaPod("uid-v")], 2)}


def test_before_the_cluster_is_known_that_is_the_answer():
    service = _service(_FakeCluster())
    assert service.filter(_ask("p", ["a"])).Error == NOT_READY
    assert _bind(service, "p", "a").Error == NOT_READY
    assert [(one.Host, one.Score) for one in service.prioritize(_ask("p", ["a"]))] == [("a", 0)]


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (None, "the request has no Pod"),
        ({}, "spec.containers is missing"),
        ({"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}}, "lots"),
        ({"spec": 3}, "spec"),
        ({**pod_json("p"), "spec": {"containers": [{}], "affinity": {"nodeAffinity": 1}}}, "affinity"),
    ],
)
def test_a_pod_that_makes_no_sense_is_an_error_of_the_answer(pod, message):
    service = _service(_FakeCluster(), engine_with(a=1))
    assert message in service.filter(ExtenderArgs(Pod=pod, NodeNames=["a"])).Error
    assert service.filter(_ask("q", ["a"])).NodeNames == ["a"]


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["1", "1e99", "-1", "500m"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "name", "uid", "containers", "resources", "requests", "cpu", "affinity"]
            )
            | st.sampled_from(["annotations", "alibabacloud.com/gpu-milli", "priority", "tolerations", "nodeSelector"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), _JUNK), st.lists(st.text(max_size=3), max_size=3)
)
def test_no_message_whatever_ends_the_service(pod, names):
    engine = engine_with("spread", a=1)
    service = _service(_FakeCluster(), engine)
    args = ExtenderArgs(Pod=pod, NodeNames=[*names, "a"])
    msgspec.json.encode([service.filter(args), service.prioritize(args)])
    assert service.filter(_ask("good", ["a"])).Error == ""
