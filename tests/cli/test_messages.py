"""The line that kube-scheduler writes about a pod that fits nowhere: its words, its order, and where it is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler.manifests.scheduler_message import NO_NODES, scheduler_message
from hostler.model import Decision, Explanation, Expression, Failure, GuestSpec, HostVerdict, Reason, Score, Term
from tests.cli.cli_in_process import hostler, write

DECISION = Decision(guest="p", uid="p", seq=1, at=0, policy="kubernetes", state="waiting")


def message_of(*hosts: list[tuple[str, str, str]], spec: GuestSpec = GuestSpec()) -> str:  # noqa: B008 (frozen)
    """Return the message for hosts n0, n1 and so on that fail these (filter, code, subject)."""
    verdicts = tuple(
        HostVerdict(host=f"n{at}", failures=tuple(Failure(reason=Reason(*reason)) for reason in reasons))
        for at, reasons in enumerate(hosts)
    )
    return scheduler_message(Explanation(decision=DECISION, as_of="now", verdicts=verdicts), spec)


CPU = ("resources", "insufficient", "cpu")
PODS = ("resources", "insufficient", "guests")
GPU = ("devices", "insufficient_devices", "gpu")
CORDON = ("cordon", "cordoned", "")
NAME = ("host_name", "not_the_named_host", "x")
TAINT = ("taints", "untolerated_taint", "gpu:NoSchedule")
SELECTOR = ("host_affinity", "selector_mismatch", "disk=ssd")
TERMS = ("host_affinity", "affinity_mismatch", "disk=ssd")
PORT = ("ports", "port_taken", "*:80/TCP")
SKEW = ("spread", "skew_too_large", "app=web by zone, skew 1")
NO_LABEL = ("spread", "no_topology_label", "zone")
NEAR = ("guest_affinity", "affinity_unmet", "app=db by zone")
APART = ("guest_affinity", "anti_affinity", "app=db by zone")
HELD = ("guest_affinity", "existing_anti_affinity", "app=db by zone")


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        ([CORDON], "node(s) were unschedulable"),
        ([NAME], "node(s) didn't match the requested node name"),
        ([TAINT], "node(s) had untolerated taint(s)"),
        ([SELECTOR], "node(s) didn't match Pod's node affinity/selector"),
        ([TERMS], "node(s) didn't match Pod's node affinity/selector"),
        ([PORT], "node(s) didn't have free ports for the requested pod ports"),
        ([CPU], "Insufficient cpu"),
        ([PODS], "Too many pods"),
        ([GPU], "Insufficient gpu"),
        ([NO_LABEL], "node(s) didn't match pod topology spread constraints (missing required label)"),
        ([SKEW], "node(s) didn't match pod topology spread constraints"),
        ([NEAR], "node(s) didn't match pod affinity rules"),
        ([APART], "node(s) didn't match pod anti-affinity rules"),
        ([HELD], "node(s) didn't satisfy existing pods anti-affinity rules"),
        ([("mine", "too_dark", "night")], "too dark: night"),
    ],
)
def test_a_reason_has_kube_schedulers_words(reasons, text):
    assert message_of(reasons) == f"0/1 nodes are available: 1 {text}."


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        pytest.param([TAINT, CORDON], "node(s) were unschedulable", id="cordon-before-taints"),
        pytest.param([TERMS, TAINT], "node(s) had untolerated taint(s)", id="taints-before-affinity"),
        pytest.param([CPU, PORT], "node(s) didn't have free ports for the requested pod ports", id="ports-before-room"),
        pytest.param([CPU, SKEW, NEAR], "Insufficient cpu", id="room-before-spread"),
        pytest.param([HELD, SKEW], "node(s) didn't match pod topology spread constraints", id="spread-before-affinity"),
        pytest.param([APART, HELD], "node(s) didn't match pod anti-affinity rules", id="own-before-others"),
        pytest.param([TAINT, TAINT], "node(s) had untolerated taint(s)", id="once-for-two-taints"),
    ],
)
def test_of_each_node_the_first_plugin_counts(reasons, text):
    assert message_of(reasons) == f"0/1 nodes are available: 1 {text}."


def test_of_room_every_resource_counts_and_entries_are_sorted_as_text():
    hosts = [[CPU, PODS], [CPU], [TAINT], *([[CORDON]] * 10)]
    assert message_of(*hosts) == (
        "0/13 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), "
        "10 node(s) were unschedulable, 2 Insufficient cpu."
    )


def test_without_nodes_it_says_so_and_where_a_pod_fits_nothing():
    assert message_of() == NO_NODES
    fitting = HostVerdict(host="a", scores=(Score("x", 1, 1),), total=1)
    assert scheduler_message(Explanation(decision=DECISION, as_of="now", verdicts=(fitting,)), GuestSpec()) == ""


def named(*terms: list[list[str]]) -> GuestSpec:
    """Return a guest whose affinity terms name hosts."""
    return GuestSpec(
        host_affinity=tuple(
            Term(names=tuple(Expression("metadata.name", "In", tuple(values)) for values in term)) for term in terms
        )
    )


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            named([["n0"]]),
            "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]",
            id="one",
        ),
        pytest.param(
            named([["n0"]], [["n1", "n2"], ["n2"]]),
            "1 node(s) didn't satisfy plugin(s) [NodeAffinity], 2 Insufficient cpu",
            id="two-terms",
        ),
        pytest.param(named([["n0"]], []), "3 Insufficient cpu", id="a-term-without-names"),
        pytest.param(named([["n0"], ["n1"]]), "pod affinity terms conflict", id="conflict"),
    ],
)
def test_nodes_that_the_affinity_excludes_by_name_are_not_looked_at(spec, text):
    assert message_of([CPU], [CPU], [CPU], spec=spec) == f"0/3 nodes are available: {text}."


# ------------------------------------------------------------------------------------------ where it is shown


def node(name: str, cpu: str = "2") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.json"
    items = [node("a"), node("b"), pod("big", "3"), pod("also-big", "3"), pod("small", "1")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


LINE = "0/2 nodes are available: 2 Insufficient cpu."


def test_explain_shows_it_for_pods(cluster):
    assert LINE in hostler("explain", "-f", cluster, "big").lines
    assert hostler("explain", "-f", cluster, "big", "-o", "json").json["message"] == LINE
    assert hostler("explain", "-f", cluster, "small", "-o", "json").json["message"] is None


def test_a_pod_that_runs_has_none(tmp_path):
    path = tmp_path / "cluster.json"
    running = pod("big", "3")
    running["spec"]["nodeName"] = "a"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("a"), running]}))
    assert hostler("explain", "-f", path, "big", "-o", "json").json["message"] is None


def test_place_shows_it_in_json_for_pods_that_wait(cluster):
    found = {
        one["guest"]: one.get("message") for one in hostler("place", "-f", cluster, "-o", "json").json["decisions"]
    }
    assert found == {"big": LINE, "also-big": LINE, "small": None}


def test_guests_of_our_own_format_have_none(tmp_path):
    path = write(
        tmp_path / "f.yaml", "hosts: [{name: a, capacity: {cpu: 1}}]\nguests: [{name: g, requests: {cpu: 2}}]\n"
    )
    assert "message" not in hostler("explain", "-f", path, "g", "-o", "json").json
    assert "nodes are available" not in hostler("explain", "-f", path, "g").out
    assert "message" not in hostler("place", "-f", path, "-o", "json").json["decisions"][0]


def test_pods_that_wait_with_their_gang_have_it_too(tmp_path):
    def member(name: str) -> dict[str, Any]:
        made = pod(name, "2")
        made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "crew"}
        return made

    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "crew"},
        "spec": {"minMember": 2},
    }
    path = tmp_path / "cluster.json"
    items = [node("a"), group, member("m-0"), member("m-1")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    decisions = hostler("place", "-f", path, "--policy", "kubernetes", "-o", "json").json["decisions"]
    found = {one["guest"]: one.get("message") for one in decisions}
    assert found == {
        "m-0": "0/1 nodes are available: 1 gang incomplete: default/crew.",
        "m-1": "0/1 nodes are available: 1 Insufficient cpu.",
    }
    explained = hostler("explain", "-f", path, "--policy", "kubernetes", "m-1", "-o", "json").json
    assert explained["message"] == found["m-1"]
