"""The scheduler process on a real cluster with controllers and kubelets: gangs, graceful preemption, volumes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from hostler.kube.local import LocalCluster
from tests.wait import wait_until

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scheduled")
    with (
        LocalCluster.start("scheduled", folder, nodes=3, parts=("controllers", "kwok"), dies_with_us=True) as running,
        (folder / "scheduler.log").open("wb") as log,
    ):
        words = [sys.executable, "-m", "hostler", "kube", "schedule", "--listen", ""]
        process = subprocess.Popen(
            [*words, "--kubeconfig", str(running.kubeconfig("hostler"))], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield running
        finally:
            process.terminate()
            assert process.wait(30) == 0, (folder / "scheduler.log").read_text()


@pytest.fixture
def api(cluster):
    with cluster.api() as connection:
        yield connection
        for pod in connection.call("GET", PODS)["items"]:
            connection.send("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})


def pod(name, cpu="1", grace_s=0, **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "hostler-scheduler",
            "containers": [container],
            "terminationGracePeriodSeconds": grace_s,
            **spec,
        },
    }


def where(api, name):
    return api.call("GET", f"{PODS}/{name}")["spec"].get("nodeName", "")


def test_a_gang_runs_together_and_its_group_says_so(api):
    group = {"metadata": {"name": "crew"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
    api.call("POST", groups, group)
    for number in range(2):
        api.call("POST", PODS, pod(f"crew-{number}", schedulingGroup={"podGroupName": "crew"}))
    wait_until(lambda: api.call("GET", f"{groups}/crew").get("status", {}).get("conditions"))
    assert not where(api, "crew-0")
    api.call("POST", PODS, pod("crew-2", schedulingGroup={"podGroupName": "crew"}))
    wait_until(lambda: all(where(api, f"crew-{number}") for number in range(3)))
    wait_until(lambda: api.call("GET", f"{groups}/crew")["status"]["conditions"][0]["status"] == "True")


def test_a_preemptor_waits_for_the_grace_of_its_victim(api):
    api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    for number in range(3):
        api.call("POST", PODS, pod(f"low-{number}", cpu="7", grace_s=2))
    wait_until(lambda: all(api.call("GET", f"{PODS}/low-{n}")["status"]["phase"] == "Running" for n in range(3)))
    api.call("POST", PODS, pod("high", cpu="7", priorityClassName="urgent"))
    node = wait_until(lambda: api.call("GET", f"{PODS}/high")["status"].get("nominatedNodeName"))
    wait_until(lambda: where(api, "high"))
    assert where(api, "high") == node
    left = {one["metadata"]["name"] for one in api.call("GET", PODS)["items"]}
    assert len(left & {"low-0", "low-1", "low-2"}) == 2


def test_a_local_volume_is_bound_where_its_pod_runs(api):
    api.call(
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
    api.call(
        "POST",
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/mnt/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
        },
    )
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "5Gi"}},
    }
    api.call("POST", CLAIMS, {"metadata": {"name": "data"}, "spec": claim})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    api.call("POST", PODS, pod("db", volumes=volumes))
    wait_until(lambda: where(api, "db"))
    assert where(api, "db") == "node-1"
    assert api.call("GET", f"{CLAIMS}/data")["status"]["phase"] == "Bound"
    wait_until(lambda: api.call("GET", f"{PODS}/db")["status"]["phase"] == "Running")


def test_budgets_kept_by_the_controllers_are_heeded(api):
    for number in range(3):
        labelled = pod(f"kept-{number}", cpu="7")
        labelled["metadata"]["labels"] = {"app": "kept"} if number < 2 else {"app": "free"}
        api.call("POST", PODS, labelled)
    wait_until(lambda: all(api.call("GET", f"{PODS}/kept-{n}")["status"]["phase"] == "Running" for n in range(3)))
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "kept"}}}
    api.call("POST", budgets, {"metadata": {"name": "budget"}, "spec": spec})
    wait_until(lambda: api.call("GET", f"{budgets}/budget").get("status", {}).get("currentHealthy") == 2)
    api.call("POST", PODS, pod("urgent", cpu="7", priorityClassName="system-cluster-critical"))
    wait_until(lambda: where(api, "urgent"))
    left = {one["metadata"]["name"] for one in api.call("GET", PODS)["items"]}
    assert {"kept-0", "kept-1"} <= left
    assert "kept-2" not in left


def _of_our_own(file, text):
    file.write_text(f"apiVersion: hostler/v1\nkind: Scheduler\nelection: {{name: own}}\nlisten: ''\n{text}")


def test_the_log_tells_what_was_done_and_what_a_new_file_changes(cluster, api, tmp_path):
    file, log = tmp_path / "scheduler.yaml", tmp_path / "log"
    profile = "profiles: [{scheduler_name: own, policy: kubernetes}]\n"
    _of_our_own(file, profile)
    words = ["kube", "schedule", "--config", str(file), "-v", "--log-format", "json"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "hostler", *words, "--kubeconfig", str(cluster.kubeconfig("hostler"))], stderr=out
        )

    def lines():
        return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def said(message):
        return next((line for line in lines() if line["message"].startswith(message)), None)

    try:
        assert wait_until(lambda: said("scheduling"))["nodes"] == 3
        assert said("starting")["profiles"] == "own:kubernetes"
        assert said("waiting for the lease kube-system/own")
        assert said("leading")["identity"]
        api.call("POST", PODS, pod("fits", "100m", schedulerName="own"))
        assert wait_until(lambda: said("first pod bound"))["pod"] == "default/fits"
        api.call("POST", PODS, pod("huge", "1000", schedulerName="own"))
        assert "Insufficient cpu" in wait_until(lambda: said("unschedulable"))["why"]

        process.send_signal(signal.SIGHUP)
        wait_until(lambda: said("SIGHUP: configuration read: no changes"))
        _of_our_own(file, profile.replace("kubernetes", "pack") + "limits: {max_in_flight: 8}\n")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: said("SIGHUP: ignored until a restart: limits.max_in_flight: 64 became 8"))
        assert said("SIGHUP: pods of own are now placed by pack, not by kubernetes")
        _of_our_own(file, "profiles: [{scheduler_name: own, policy: nonsense}]\n")
        process.send_signal(signal.SIGHUP)
        assert "nonsense" in wait_until(lambda: said("SIGHUP: nothing changed"))["why"]
    finally:
        process.terminate()
        assert process.wait(30) == 0, log.read_text()
    end = lines()[-1]
    assert (end["message"], end["bound"], end["evicted"]) == ("stopped", 1, 0)
    assert {"time", "level"} <= set(end)
