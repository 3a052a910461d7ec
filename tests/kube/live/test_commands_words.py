"""Output of the commands for live clusters: the same with and without --via, and no more than is known."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.cli_in_process import hostler
from tests.kube.live.objects import deployment, pod, write
from tests.kube.live.test_via import both_ways

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
LACKING = "gang default/crew needs 1 more of its members placed: 0/3 nodes are available: 3 Insufficient cpu."
IN_CREW = {"schedulingGroup": {"podGroupName": "crew"}}


@pytest.fixture
def crew(cluster):
    """Declare a gang of at least four."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "crew", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
    }
    with cluster.api() as api:
        api.call("POST", GROUPS, group)
    yield group
    with cluster.api() as api:
        api.send("DELETE", f"{GROUPS}/crew")


def without_ties(lines):
    """Return lines without random parts: which of equal nodes a member would get."""
    return [line for line in lines if not re.match(r"(crew|node)-\d ", line)]


def refuse(cluster, name, message):
    """Write the condition of a pod that its scheduler rejected."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    with cluster.api() as api:
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        api.call("PATCH", path, {"status": {"conditions": [condition]}})


def test_unplaceable_gang_is_explained_the_same_with_and_without_via(cluster, create, crew):
    for number in range(4):
        create(f"crew-{number}", "7", **IN_CREW)
    questions: list[tuple[str, ...]] = [("explain", f"crew-{number}") for number in (0, 3)]
    questions += [("kube", "candidates", "crew-0"), ("kube", "queue", "-o", "json")]
    *pairs, queues = both_ways(cluster, *questions, has_said=[f"crew-{number}" for number in range(4)])
    for plain, asked in pairs:
        assert without_ties(asked.lines) == without_ties(plain.lines)
        assert asked.err == plain.err
    assert "3 of 3 hosts fit, but gang default/crew needs 1 more" in pairs[0][0].lines[0]
    assert "hosts:  (" not in pairs[1][0].lines[0]
    assert LACKING in pairs[0][0].lines
    assert pairs[2][0].lines[:2] == [
        "3 of 3 nodes would take default/crew-0 by itself.",
        "Its gang default/crew: 0 placed, of at least 4; 3 would fit now.",
    ]
    for answer in queues:
        rows = {(row["state"], row["reason"]) for row in answer.json["pods"] if row["name"].startswith("crew-")}
        assert rows == {("unschedulable", LACKING)}


def test_undeclared_gang_gathers_with_and_without_via(cluster, create):
    create("lost", schedulingGroup={"podGroupName": "ghost"})
    words = "gang default/ghost is not known yet: there is no such PodGroup"
    explained, queues = both_ways(cluster, ("explain", "lost"), ("kube", "queue", "-o", "json"), has_said=["lost"])
    assert explained[0].lines == explained[1].lines
    assert explained[0].lines[0].startswith("lost (cpu 1) is not placed: gang default/ghost is not known yet")
    for answer in queues:
        (row,) = answer.json["pods"]
        assert (row["state"], row["reason"]) == ("gathering", words)


def test_gated_pod_is_described_the_same_with_and_without_via(cluster, create):
    create("gated", "100", schedulingGates=[{"name": "example.org/wait"}])
    explained, queues = both_ways(cluster, ("explain", "gated"), ("kube", "queue", "-o", "json"))
    assert explained[0].lines == explained[1].lines
    assert explained[0].err == explained[1].err
    assert "(example.org/wait)" in explained[0].err
    plain, asked = ({(row["state"], row["reason"]) for row in one.json["pods"]} for one in queues)
    assert plain == asked


def test_capacity_counts_members_of_a_gang_by_themselves_and_says_so(cluster, tmp_path):
    file = write(tmp_path / "crew.json", pod("crew-0", "7", **IN_CREW))
    ((plain, asked),) = both_ways(cluster, ("kube", "capacity", "-f", file))
    assert plain.lines == asked.lines
    assert plain.lines[0].startswith("3 more pods like crew-0")
    assert "'hostler kube plan' says whether gang default/crew fits as a whole" in plain.lines[1]
    assert plain.lines[2] == "The next one does not fit: 0/3 nodes are available: 3 Insufficient cpu."


def test_where_the_scheduler_says_otherwise_that_comes_first(cluster, create, on):
    create("alone")
    refuse(cluster, "alone", "0/3 nodes are available: 3 Too many pods.")
    for words in (("explain", "alone"), ("kube", "candidates", "alone")):
        found = hostler(*words, *on)
        assert "alone waits: its scheduler says 0/3 nodes are available: 3 Too many pods." in found.lines[0]
        assert "--via asks it itself" in found.lines[1]
    assert hostler("explain", "alone", *on).lines[2].startswith("alone (cpu 1) would go to node-")
    assert hostler("explain", "alone", *on, "-o", "json").json["scheduler_says"].endswith("3 Too many pods.")


def test_where_the_scheduler_says_the_same_nothing_is_added(cluster, create, on):
    create("huge", "100")
    refuse(cluster, "huge", "0/3 nodes are available: 3 Insufficient cpu.")
    for words in (("explain", "huge"), ("kube", "candidates", "huge")):
        found = hostler(*words, *on)
        assert "its scheduler says" not in (found.out + found.err).lower()
        assert "--config" not in found.out + found.err


def test_what_makes_pods_is_no_pod(on):
    found = hostler("explain", "deployment/batch", *on)
    assert (found.code, found.error) == (2, "deployment/batch is not a pod")
    assert found.hint == "name one of its pods: 'kubectl get pods' lists batch-…"
    assert hostler("kube", "candidates", "deploy/batch", *on).error == "deploy/batch is not a pod"


def test_candidates_of_a_pod_that_has_ended_lead_to_what_is_known_of_it(cluster, create, on):
    create("ended", node="node-1")
    with cluster.api() as api:
        api.call("PATCH", "/api/v1/namespaces/default/pods/ended/status", {"status": {"phase": "Succeeded"}})
    ((plain, asked),) = both_ways(cluster, ("kube", "candidates", "pod/ended"))
    assert plain.error == asked.error
    assert plain.error.startswith("pod default/ended has ended or is being deleted")
    assert plain.hint == asked.hint == "'hostler explain -n default ended' shows what is known of it"


def test_pods_that_name_no_scheduler_are_planned_with_a_note(on, tmp_path):
    made = deployment("web", 2)
    del made["spec"]["template"]["spec"]["schedulerName"]
    file = tmp_path / "web.json"
    file.write_text(json.dumps(made))
    found = hostler("kube", "plan", "-f", file, *on)
    assert found.code == 0
    assert "pods that name no scheduler are planned as if they named hostler-scheduler" in found.err


def test_what_no_node_offers_is_said(create, on):
    asks = [{"name": "c", "image": "i", "resources": {"limits": {"example.org/quantum": "1"}}}]
    create("odd", containers=asks)
    assert "no node offers example.org/quantum" in hostler("explain", "odd", *on).err


def test_a_scheduler_that_is_not_there_is_not_taken_for_the_cluster(on):
    found = hostler("kube", "queue", "--via", "http://127.0.0.1:1", *on)
    assert found.code == 3
    assert found.hint.startswith("does a scheduler run there?")


def test_missing_or_empty_service_is_reported_with_what_to_check(cluster, on):
    missing = hostler("kube", "queue", "--via", "kube-system/nobody:80", *on)
    assert "'kubectl get services -n kube-system'" in missing.hint
    ports = [{"name": "http", "port": 80}]
    services = "/api/v1/namespaces/default/services"
    body = {"metadata": {"name": "empty"}, "spec": {"ports": ports, "selector": {"app": "none"}}}
    with cluster.api() as api:
        api.call("POST", services, body)
        try:
            empty = hostler("kube", "queue", "--via", "default/empty:http", *on)
        finally:
            api.call("DELETE", f"{services}/empty")
    assert "'kubectl get pods,endpointslices -n default'" in empty.hint
