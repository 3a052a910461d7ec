"""A whole cluster with kwok in place of kubelets: nodes are Ready, pods run, complete, and are deleted."""

from __future__ import annotations

import pytest

from hostler.kube.local import LocalCluster
from tests.wait import wait_until

PODS = "/api/v1/namespaces/default/pods"
CONTAINERS = [{"name": "main", "image": "none"}]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    parts = ("scheduler", "controllers", "kwok")
    with LocalCluster.start("whole", folder, nodes=2, parts=parts, dies_with_us=True) as found:
        yield found


@pytest.fixture
def api(cluster):
    with cluster.api() as connection:
        yield connection


def phase_of(api, name):
    return api.call("GET", f"{PODS}/{name}")["status"].get("phase")


def test_nodes_are_ready_and_have_addresses(api):
    for node in api.call("GET", "/api/v1/nodes")["items"]:
        assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "True"
        assert node["status"]["addresses"][0]["type"] == "InternalIP"
        assert not node["spec"].get("taints")


def test_a_node_that_says_nothing_of_itself_becomes_ready_too(api):
    api.call("POST", "/api/v1/nodes", {"metadata": {"name": "bare"}, "spec": {"unschedulable": True}})

    def conditions():
        node = api.call("GET", "/api/v1/nodes/bare")
        found = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
        return found.get("Ready") == "True" and node["status"]["allocatable"]["cpu"] == "8"

    wait_until(conditions)


def test_a_pod_is_placed_and_runs(api):
    api.call("POST", PODS, {"metadata": {"name": "runs"}, "spec": {"containers": CONTAINERS}})
    wait_until(lambda: phase_of(api, "runs") == "Running")
    found = api.call("GET", f"{PODS}/runs")
    assert found["spec"]["nodeName"] in ("node-0", "node-1")
    assert found["status"]["containerStatuses"][0]["ready"]
    assert {one["type"] for one in found["status"]["conditions"]} >= {"PodScheduled", "Ready", "Initialized"}
    assert found["status"]["podIP"]
    assert found["status"]["hostIP"].startswith("10.64.")


def test_a_deleted_pod_stays_for_its_grace_period_and_then_goes(api):
    for name, grace_s in (("patient", 3600), ("hasty", 1)):
        spec = {"containers": CONTAINERS, "terminationGracePeriodSeconds": grace_s}
        api.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        wait_until(lambda: phase_of(api, name) == "Running")  # noqa: B023
    for name in ("patient", "hasty"):
        api.call("DELETE", f"{PODS}/{name}")
    wait_until(lambda: api.send("GET", f"{PODS}/hasty")[0] == 404)
    assert api.call("GET", f"{PODS}/patient")["metadata"]["deletionTimestamp"]
    api.call("DELETE", f"{PODS}/patient", {"gracePeriodSeconds": 0})
    wait_until(lambda: api.send("GET", f"{PODS}/patient")[0] == 404)


def test_a_pod_of_a_job_completes_and_so_does_the_job(api):
    template = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}
    path = "/apis/batch/v1/namespaces/default/jobs"
    api.call("POST", path, {"metadata": {"name": "short"}, "spec": {"template": template}})
    wait_until(lambda: api.call("GET", f"{path}/short")["status"].get("succeeded") == 1)


def test_a_pod_that_a_finalizer_keeps_ends_all_the_same(api):
    metadata = {"name": "kept", "finalizers": ["example.com/keep"]}
    spec = {"containers": CONTAINERS, "terminationGracePeriodSeconds": 1}
    api.call("POST", PODS, {"metadata": metadata, "spec": spec})
    wait_until(lambda: phase_of(api, "kept") == "Running")
    api.call("DELETE", f"{PODS}/kept")
    wait_until(lambda: phase_of(api, "kept") == "Failed")
    api.call("PATCH", f"{PODS}/kept", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/keep"]}})
    wait_until(lambda: api.send("GET", f"{PODS}/kept")[0] == 404)
