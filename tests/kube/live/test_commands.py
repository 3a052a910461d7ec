"""The commands for live clusters, on a real one; none of them writes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hostler.kube.local.binaries import find_binaries
from tests.cli.cli_in_process import hostler
from tests.kube.live.objects import deployment, pod, write

ROOT = Path(__file__).resolve().parents[3]


def versions(cluster):
    """Return name and version of every pod; any write would change them."""
    with cluster.api() as api:
        items = api.call("GET", "/api/v1/pods")["items"]
    return {(item["metadata"]["name"], item["metadata"]["resourceVersion"]) for item in items}


def test_a_pod_that_fits_nowhere_is_explained(cluster, create, on):
    create("huge", "100")
    found = hostler("explain", "huge", *on)
    assert found.code == 0, found.err
    assert found.lines[0].startswith("huge (cpu 100) fits nowhere: 0 of 3 hosts: 3 insufficient cpu")
    assert "0/3 nodes are available: 3 Insufficient cpu." in found.lines


def test_explain_has_the_same_keys_as_with_files(cluster, create, on, tmp_path):
    create("web")
    with cluster.api() as api:
        nodes = api.call("GET", "/api/v1/nodes")["items"]
    objects = [{"apiVersion": "v1", "kind": "Node", **node} for node in nodes]
    file = write(tmp_path / "all.json", *objects, pod("web"))
    of_files = hostler("explain", "-f", file, "web", "--policy", "kubernetes", "-o", "json").json
    of_cluster = hostler("explain", "web", *on, "-o", "json").json
    assert of_cluster.keys() == of_files.keys()
    assert of_cluster["scores"] == of_files["scores"]
    assert of_cluster["decision"].keys() == of_files["decision"].keys()


def test_a_pod_that_runs_is_explained_where_it_is(create, on):
    create("settled", node="node-1")
    assert hostler("explain", "settled", *on).lines[0].startswith("settled (cpu 1) already runs on node-1. 3 of 3")


def test_a_pod_of_another_scheduler_is_explained_with_a_note(create, on):
    create("theirs", "100", scheduler="default-scheduler")
    found = hostler("explain", "default/theirs", *on)
    assert "it is explained as if it named hostler-scheduler" in found.err
    assert "fits nowhere" in found.lines[0]


def test_a_gated_pod_is_explained_as_if_its_gates_were_gone(create, on):
    create("gated", "100", schedulingGates=[{"name": "example.org/wait"}])
    found = hostler("explain", "gated", *on)
    assert "has scheduling gates (example.org/wait)" in found.err
    assert "fits nowhere" in found.lines[0]


def test_an_unknown_pod_is_an_error_with_the_namespace_where_there_is_one(create, on):
    create("web")
    assert hostler("explain", "nope", *on).error == "there is no pod 'nope' in namespace default"
    assert hostler("explain", "web", "-n", "kube-system", *on).hint == "it exists in namespace default: -n default"


def test_files_and_clusters_are_not_mixed(on, tmp_path):
    assert hostler("explain", "-f", tmp_path / "x.yaml", "web", *on).code == 2


def test_without_any_cluster_explain_asks_for_files(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = hostler("explain", "web")
    assert (found.code, found.error) == (2, "give either -f FILE or --journal FILE, or --kubeconfig of a live cluster")


@pytest.mark.parametrize("words", [("explain", "web"), ("kube", "candidates", "web"), ("kube", "queue")])
def test_a_cluster_that_does_not_answer_is_unavailable(words, cluster, tmp_path):
    text = cluster.kubeconfig().read_text().replace(f":{cluster.state.ports.apiserver}", ":1")
    (tmp_path / "config").write_text(text)
    found = hostler(*words, "--kubeconfig", tmp_path / "config")
    assert found.code == 3
    assert "connection refused" in found.err


@pytest.mark.parametrize(
    ("words", "right"),
    [(("explain", "web"), "list "), (("kube", "candidates", "web"), "list "), (("kube", "queue"), "list pods")],
)
def test_a_right_that_is_missing_is_named(words, right, cluster):
    found = hostler(*words, "--kubeconfig", cluster.kubeconfig("nobody"))
    assert found.code == 3
    assert f"not allowed to {right}" in found.err
    assert f"hint: ask for the right to {right}" in found.err


def test_user_with_read_permission_only_gets_an_answer(cluster, create):
    create("web")
    rules = [
        {"apiGroups": ["", "apps", "policy", "storage.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses", "podgroups"], "verbs": ["list"]},
    ]
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "nobody"}],
    }
    paths = [f"/apis/{group}/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings")]
    with cluster.api() as api:
        api.call("POST", paths[0], {"metadata": {"name": "reader"}, "rules": rules})
        api.call("POST", paths[1], binding)
    try:
        found = hostler("explain", "web", "--kubeconfig", cluster.kubeconfig("nobody"))
        assert found.code == 0, found.err
        assert found.lines[0].startswith("web (cpu 1) goes to node-")
    finally:
        with cluster.api() as api:
            for path in paths:
                api.call("DELETE", f"{path}/reader")


def test_candidates_are_shown_with_scores_and_reasons(create, on):
    create("filler", "7", node="node-0")
    create("web", "2")
    found = hostler("kube", "candidates", "web", *on, "-o", "json").json
    assert {one["host"] for one in found["feasible"]} == {"node-1", "node-2"}
    assert [one["host"] for one in found["refused"]] == ["node-0"]
    table = hostler("kube", "candidates", "web", *on)
    assert table.lines[0] == "2 of 3 nodes would take default/web."
    assert table.row("node-0")[1:3] == ["insufficient", "cpu:"]


def test_candidates_of_a_pod_that_fits_nowhere_end_with_1(create, on):
    create("huge", "100")
    assert hostler("kube", "candidates", "huge", *on).code == 1


def test_a_plan_says_where_a_deployment_would_go_and_writes_nothing(cluster, on, tmp_path):
    file = write(tmp_path / "web.json", deployment("web", 4, "4"))
    before = versions(cluster)
    found = hostler("kube", "plan", "-f", file, *on, "-o", "json")
    assert found.code == 0, found.err
    assert found.json["complete"]
    nodes = [one["node"] for one in found.json["pods"]]
    assert sorted(map(nodes.count, set(nodes))) == [1, 1, 2]
    assert versions(cluster) == before


def test_a_plan_of_too_many_pods_ends_with_1_and_a_reason(on, tmp_path):
    found = hostler("kube", "plan", "-f", write(tmp_path / "web.json", deployment("web", 7, "4")), *on)
    assert found.code == 1
    assert found.lines[-1] == "6 of 7 pods would be placed, 0 evicted."
    assert "0/3 nodes are available: 3 Insufficient cpu." in found.out


def test_a_plan_names_who_would_be_evicted(create, on, tmp_path):
    for number in range(3):
        create(f"low-{number}", "8", node=f"node-{number}", priority=None)
    important = pod("important", "8") | {"spec": {**pod("x", "8")["spec"], "priority": 1000}}
    file = write(tmp_path / "important.json", important)
    found = hostler("kube", "plan", "-f", file, *on, "-o", "json").json
    assert found["pods"][0]["node"].startswith("node-")
    (gone,) = found["evicted"]
    assert (gone["node"], gone["preemptor"]) == (found["pods"][0]["node"], "default/important")
    assert hostler("kube", "plan", "-f", file, "--no-preempt", *on).code == 1


def test_a_plan_of_a_gang_places_all_or_none(on, tmp_path):
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "crew", "namespace": "default"},
        "spec": {"minMember": 4},
    }
    label = {"scheduling.x-k8s.io/pod-group": "crew"}
    for cpu, placed in (("6", 0), ("4", 4)):
        members = [pod(f"crew-{number}", cpu, labels=label) for number in range(4)]
        found = hostler("kube", "plan", "-f", write(tmp_path / "crew.json", group, *members), *on, "-o", "json").json
        assert sum(bool(one["node"]) for one in found["pods"]) == placed


def test_a_plan_of_a_pod_that_exists_is_refused(create, on, tmp_path):
    create("web")
    assert "exists already" in hostler("kube", "plan", "-f", write(tmp_path / "p.json", pod("web")), *on).error


def test_capacity_counts_how_many_more_fit(create, on, tmp_path):
    create("settled", "4", node="node-0")
    found = hostler("kube", "capacity", "-f", write(tmp_path / "p.json", pod("web", "2")), *on, "-o", "json")
    assert found.code == 0, found.err
    assert found.json["fits"] == 10
    assert found.json["per_node"] == {"node-1": 4, "node-2": 4, "node-0": 2}


def test_the_queue_is_read_from_the_api(create, on):
    create("waits", "100")
    create("gated", schedulingGates=[{"name": "g"}])
    create("theirs", scheduler="other")
    found = hostler("kube", "queue", *on, "-o", "json").json
    assert {(row["name"], row["state"]) for row in found["pods"]} == {("waits", "new"), ("gated", "gated")}
    assert found["from"] == "api"


def test_kubectl_hostler_passes_on(cluster, create, tmp_path):
    create("huge", "100")
    plugin = tmp_path / "kubectl-hostler"
    plugin.write_text(
        f"#!{sys.executable}\nimport sys\nfrom hostler.cli.kubectl_plugin import main\nsys.exit(main())\n"
    )
    plugin.chmod(0o755)
    kubectl = find_binaries(["kubectl"], lambda line: None)["kubectl"].path
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig()), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(*words):
        return subprocess.run([kubectl, "hostler", *words], env=environment, capture_output=True, text=True)

    explained = run("explain", "huge", "-n", "default")
    assert explained.returncode == 0, explained.stderr
    assert "fits nowhere" in explained.stdout
    assert run("candidates", "huge").returncode == 1


def test_the_plugin_is_installed_as_an_executable():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-hostler"] == "hostler.cli.kubectl_plugin:main"


@pytest.mark.parametrize("prefix", ["pod/", "pods/"])
def test_a_pod_may_be_named_as_kubectl_names_it(prefix, create, on):
    create("web")
    assert hostler("explain", f"{prefix}web", *on).lines[0].startswith("web (cpu 1) goes to node-")
    assert hostler("kube", "candidates", f"{prefix}web", *on).lines[0] == "3 of 3 nodes would take default/web."


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_reported_with_its_node_and_its_events(phase, cluster, create, on):
    made = create("ended", node="node-1")
    with cluster.api() as api:
        path = "/api/v1/namespaces/default/pods/ended"
        api.call("PATCH", f"{path}/status", {"status": {"phase": phase}})
        api.call("POST", "/api/v1/namespaces/default/events", event("ended", made["metadata"]["uid"]))
    found = hostler("explain", "ended", *on)
    assert found.code == 0, found.err
    assert found.lines[0].startswith(f"ended has {phase.lower()} on node-1: it holds nothing there")
    assert found.lines[-1].split(maxsplit=2)[1:] == ["Scheduled", "put on node-1"]
    data = hostler("explain", "ended", *on, "-o", "json").json
    assert (data["state"], data["node"], data["events"][0]["reason"]) == (phase.lower(), "node-1", "Scheduled")


def test_of_a_pod_that_is_gone_the_events_are_told(cluster, on):
    with cluster.api() as api:
        api.call("POST", "/api/v1/namespaces/default/events", event("vanished", "some-uid"))
    found = hostler("explain", "vanished", *on)
    assert found.code == 0, found.err
    assert found.lines[0] == "vanished does not exist any more."
    assert found.lines[-1].endswith("put on node-1")


def test_a_pod_that_is_deleted_before_it_ran_is_reported(cluster, create, on):
    create("early", "100")
    path = "/api/v1/namespaces/default/pods/early"
    with cluster.api() as api:
        api.call("PATCH", path, {"metadata": {"finalizers": ["example.org/wait"]}})
        api.call("DELETE", path)
        try:
            found = hostler("explain", "early", *on)
        finally:
            api.call("PATCH", path, {"metadata": {"finalizers": None}})
    assert found.lines[0] == "early is being deleted and never ran: it is not scheduled any more."


def test_a_node_with_its_number_of_pods_has_too_many(cluster, create, on):
    with cluster.api() as api:
        for number in range(3):
            api.call("PATCH", f"/api/v1/nodes/node-{number}/status", {"status": {"allocatable": {"pods": "0"}}})
    try:
        create("web")
        found = hostler("explain", "web", *on)
    finally:
        with cluster.api() as api:
            for number in range(3):
                api.call("PATCH", f"/api/v1/nodes/node-{number}/status", {"status": {"allocatable": {"pods": "110"}}})
    assert found.lines[0].startswith("web (cpu 1) fits nowhere: 0 of 3 hosts: 3 too many guests")
    assert found.row("node-0")[1:] == ["too", "many", "guests"]


def event(name, uid):
    """Return an event as a scheduler writes it."""
    about = {"kind": "Pod", "namespace": "default", "name": name, "uid": uid}
    metadata = {"generateName": f"{name}.", "namespace": "default"}
    times = {"firstTimestamp": "2026-01-31T12:00:00Z", "lastTimestamp": "2026-01-31T12:00:00Z"}
    return {
        "metadata": metadata, "involvedObject": about, "reason": "Scheduled", "message": "put on node-1", **times,
    }  # fmt: skip
