"""The scheduler deployed in a namespace that an overlay names: its lease, rights and queued calls are of that place."""

from __future__ import annotations

import base64
import json
import re
import ssl
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.kube.deploy.clusters import ROOT, Kubectl, one, pod, rendered, scheduling, whole_cluster
from tests.wait import wait_until

HOME = "placement"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with whole_cluster(tmp_path_factory.mktemp("placement"), "placement", nodes=1) as found:
        yield found


@pytest.fixture
def overlay(tmp_path):
    """Write an overlay as a user would: the base, and a namespace."""
    (tmp_path / "deploy").symlink_to(ROOT / "deploy" / "kustomize")
    lines = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": HOME,
        "resources": ["deploy/base"],
        "components": ["deploy/components/ha"],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(lines))
    return tmp_path


def account(cluster, kubectl, folder):
    """Return a kubeconfig of the scheduler's account."""
    access = yaml.safe_load(cluster.kubeconfig().read_text())
    token = kubectl("create", "token", "hostler-scheduler", "-n", HOME).strip()
    access["users"][0]["user"] = {"token": token}
    (folder / "account").write_text(yaml.safe_dump(access))
    return folder / "account"


def arguments(objects, folder: Path):
    """Return the container's arguments as the kubelet would give them, with our folder in place of its own."""
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    words = [word.replace("$(POD_NAMESPACE)", HOME) for word in container["args"] if not word.startswith("--tls-")]
    file = one(objects, "ConfigMap")["data"]["scheduler.yaml"].replace("0.0.0.0:10359", "127.0.0.1:0")
    (folder / "scheduler.yaml").write_text(file)
    return [re.sub("^--config=/etc/hostler/", f"--config={folder}/", word) for word in words]


def flow_schema_of(kubeconfig, path):
    """Return the uid of the flow schema by which the server queued a request of an account."""
    access = yaml.safe_load(kubeconfig.read_text())
    where, who = access["clusters"][0]["cluster"], access["users"][0]["user"]
    trust = ssl.create_default_context(cadata=base64.b64decode(where["certificate-authority-data"]).decode())
    request = urllib.request.Request(where["server"] + path, headers={"Authorization": f"Bearer {who['token']}"})
    with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
        return answer.headers["X-Kubernetes-PF-FlowSchema-UID"]


def test_scheduler_works_in_the_namespace_of_an_overlay(cluster, overlay, tmp_path):
    kubectl = Kubectl(cluster.kubeconfig())
    said = kubectl("apply", "-k", str(overlay))
    assert f"namespace/{HOME} created" in said
    objects = rendered(overlay, kubectl)
    kubeconfig = account(cluster, kubectl, tmp_path)
    with scheduling(kubeconfig, tmp_path, arguments(objects, tmp_path)) as running:
        kubectl.apply(pod("web"))
        kubectl.wait_until_placed("web")
        wait_until(lambda: kubectl("get", "lease", "-n", HOME, "-o", "name"))
        assert "not allowed" not in running.log
    assert "hostler-system" not in kubectl("get", "namespaces", "-o", "name")
    schemas = {item["metadata"]["name"]: item["metadata"]["uid"] for item in json.loads(
        kubectl("get", "flowschemas", "-o", "json"))["items"]}  # fmt: skip
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/hostler-scheduler"
    wait_until(lambda: flow_schema_of(kubeconfig, "/api/v1/nodes") == schemas["hostler-scheduler"])
    wait_until(lambda: flow_schema_of(kubeconfig, lease) == schemas["hostler-leader-election"])
