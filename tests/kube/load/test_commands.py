"""``hostler kube load`` on a real API server; and invalid files of kind Load."""

from __future__ import annotations

import pytest
import yaml

from tests.cli.cli_in_process import hostler

HEAD = "apiVersion: hostler/v1\nkind: Load\n"


@pytest.fixture
def file(tmp_path):
    def write(body):
        path = tmp_path / "load.yaml"
        path.write_text(HEAD + body)
        return path

    return write


def test_a_load_is_created_seen_and_cleaned(control_plane, namespace, file):
    name = namespace.removeprefix("test-")
    path = file(
        f"name: l-{name}\nnamespace: {namespace}\nnodes: {{count: 3}}\npods: {{count: 20, rate: 200}}\n"
        "gangs: {count: 2, size: 3}\nchurn: {rate: 20, lifetime: 200ms}\n"
    )
    words = ("kube", "load", "-f", path, "--kubeconfig", control_plane.kubeconfig())
    result = hostler(*words, "--for", "1s")
    assert result.code == 0, result.err
    assert result.out.startswith("3 of 3 nodes; 2 of 2 gangs; 26 of 26 pods; churn: ")
    with control_plane.api() as api:
        pods = api.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        assert {pod["metadata"]["labels"]["hostler.dev/load"] for pod in pods} == {f"l-{name}"}
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"hostler-scheduler"}
        assert len(pods) == 26
    cleaned = hostler(*words, "--clean")
    assert cleaned.out == "deleted 26 pods, 2 podgroups, 3 nodes\n"


def test_an_account_without_rights_learns_what_it_needs(control_plane, file):
    path = file("pods: {count: 2}\n")
    result = hostler("kube", "load", "-f", path, "--kubeconfig", control_plane.kubeconfig("nobody"))
    assert result.code != 0
    assert 'cannot create resource "pods"' in result.err
    assert result.hint == "use an account that may create and delete nodes, pods and podgroups"


def test_a_pod_that_the_server_refuses_points_to_the_template(control_plane, namespace, file):
    path = file(f"namespace: {namespace}\npods: {{count: 2, template: {{spec: {{restartPolicy: Sometimes}}}}}}\n")
    result = hostler("kube", "load", "-f", path, "--kubeconfig", control_plane.kubeconfig())
    assert "restartPolicy" in result.err
    assert result.hint == "check the template in the file"


def test_a_dry_run_shows_one_object_of_each_kind_and_needs_no_cluster(file):
    path = file(
        "nodes: {count: 2}\npods: {count: 5}\ngangs: {count: 1, size: 2, rate: 3}\nchurn: {rate: 1, lifetime: 5s}\n"
    )
    result = hostler("kube", "load", "-f", path, "--dry-run", "--rate", "30/m", "--kubeconfig", "/nowhere")
    assert result.code == 0, result.err
    shown = list(yaml.safe_load_all(result.out))
    assert [item["kind"] for item in shown] == ["Node", "PodGroup", "Pod", "Pod", "Pod"]
    assert [line for line in result.lines if line.startswith("# ")] == [
        "# 2 nodes, such as",
        "# 1 groups at 3/s, such as",
        "# 2 pods each, such as",
        "# 5 pods at 0.5/s, such as",
        "# pods that go after 5 s at 1/s, such as",
    ]


def test_validate_and_the_schema_know_the_kind(file):
    result = hostler("config", "validate", file("nodes: {count: 1}\ngangs: {count: 2, size: 3}\n"))
    assert (result.code, result.lines[-1]) == (0, "ok")
    assert result.lines[0].endswith("load.yaml: a load of 1 node and 6 pods")
    assert "LoadFile" in hostler("config", "schema").json["$defs"]


@pytest.mark.parametrize(
    ("body", "error", "hint"),
    [
        ("", "creates nothing", "nodes, pods, gangs, churn"),
        ("pod: {count: 1}\n", "load.yaml:3: unknown key 'pod'", "pods"),
        ("pods: {count: -1}\n", "load.yaml:3: pods.count must be an integer >= 0", ""),
        ("name: Big\npods: {count: 1}\n", "load.yaml:3: name is 'Big'", "lowercase letters"),
        ("gangs: {count: 1, size: 2, min: 3}\n", "gangs.min is more than the size, 2", "lower"),
        ("gangs: {count: 1, size: 2, api: new}\n", "gangs.api is 'new'", "auto, built-in, crd"),
        ("churn: {rate: 1, lifetime: soon}\n", "'soon' is not a duration", "500ms"),
        ("churn: {rate: 0}\n", "churn.rate", ""),
        ("pods: {count: 1, template: {kind: Pod}}\n", "pods.template.kind is not allowed in a template", "metadata"),
        ("pods: {count: 1, template: {spec: 3}}\n", "pods.template.spec must be a mapping", ""),
        ("pods: {count: 1, template: {metadata: {name: x}}}\n", "metadata.name is set by the load", "remove it"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(file, body, error, hint):
    result = hostler("kube", "load", "-f", file(body), "--kubeconfig", "/nowhere")
    assert result.code == 2
    assert error in result.err
    assert not hint or hint in result.hint


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--rate", "fast"], "--rate 'fast' is not a rate"),
        (["--rate", "0/s"], "--rate '0/s' is not a rate"),
        (["--for", "long"], "'long' is not a duration"),
        (["--dry-run", "--clean"], "exclude each other"),
    ],
)
def test_wrong_options_are_refused(file, words, error):
    result = hostler("kube", "load", "-f", file("pods: {count: 1}\n"), *words)
    assert result.code == 2
    assert error in result.err
