"""The scheduler under the deployed account: it has the rights that it needs, and no others.

The API server's audit log has the requests of the account, so that rights and requests are compared verb by verb.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml

from hostler.kube.configuration import read_settings
from hostler.kube.scheduler.preflight import rights_for
from tests.kube.deploy.clusters import ROOT, Kubectl, one, pod, rendered, scheduling, whole_cluster
from tests.wait import wait_until
from tools.dashboards import RULES, metrics_in

KUSTOMIZE = ROOT / "deploy" / "kustomize"
SYSTEM = "hostler-system"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
ACCOUNT = f"system:serviceaccount:{SYSTEM}:hostler-scheduler"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}],
}
# Granted, and not used by what happens in these tests: when it is used instead.
ELSEWHERE = {
    ("get", "", "pods"): "the answer to a bind was lost",
    ("patch", "events.k8s.io", "events"): "a pod is refused again and again for the same reason",
    ("list", "events.k8s.io", "events"): "it starts where pods of its own run already",
    ("create", "authentication.k8s.io", "tokenreviews"): "a caller asks for explanations or metrics",
    ("create", "authorization.k8s.io", "subjectaccessreviews"): "a caller asks for explanations or metrics",
}

# What every account may do by itself: ask what it may do.
EVERYBODYS = {("create", "authorization.k8s.io", "selfsubjectaccessreviews")}

# Every server grants this to everybody.
COMMON = {("create", "authorization.k8s.io", "selfsubjectaccessreviews")}


class DeployedCluster:
    """A cluster on which the scheduler is deployed."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        self.kubectl = Kubectl(cluster.kubeconfig())
        self.said = self.kubectl("apply", "-k", str(KUSTOMIZE / "overlays" / "ha"))
        token = self.kubectl("create", "token", "hostler-scheduler", "-n", SYSTEM).strip()
        access = yaml.safe_load(cluster.kubeconfig().read_text())
        access["users"][0]["user"] = {"token": token}
        self.kubeconfig = folder / "account"
        self.kubeconfig.write_text(yaml.safe_dump(access))
        objects = rendered(KUSTOMIZE / "base", self.kubectl)
        self.config = folder / "scheduler.yaml"
        self.config.write_text(
            one(objects, "ConfigMap")["data"]["scheduler.yaml"].replace("0.0.0.0:10359", "127.0.0.1:0")
        )
        self.spec = one(objects, "Deployment")["spec"]["template"]["spec"]
        certificate = next(c for c in self.spec["initContainers"] if c["name"] == "certificate")
        subprocess.run(self.here(certificate["command"]), check=True, capture_output=True)

    def here(self, words):
        """Return a container's command with its namespace, and with our folders in place of its own."""
        words = [word.replace("$(POD_NAMESPACE)", SYSTEM) for word in words]
        return [re.sub("/(etc|run)/hostler/", f"{self.folder}/", word) for word in words]

    def run(self, **options):
        """Run the container's command outside of it."""
        return scheduling(self.kubeconfig, self.folder, self.here(self.spec["containers"][0]["args"]), **options)

    def asked(self):
        """Return the account's requests: verb, group and resource, and the status of the response."""
        lines = map(json.loads, (self.folder / "audit.log").read_text().splitlines())
        for line in lines:
            if line["stage"] in ("ResponseComplete", "ResponseStarted") and "objectRef" in line:
                ref = line["objectRef"]
                resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
                yield (line["verb"], ref.get("apiGroup", ""), resource), line["responseStatus"]["code"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployed")
    policy = folder / "audit.yaml"
    policy.write_text(yaml.safe_dump(AUDIT))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}")
    with whole_cluster(folder / "cluster", "deployed", nodes=4, api_flags=flags) as cluster:
        yield DeployedCluster(cluster, folder)


def granted(objects):
    rules = [rule for item in objects if item["kind"] in ("ClusterRole", "Role") for rule in item["rules"]]
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_server_accepts_all_objects_under_strictest_pod_security(site):
    assert "clusterrole.rbac.authorization.k8s.io/hostler:scheduler created" in site.said
    assert "flowschema.flowcontrol.apiserver.k8s.io/hostler-scheduler created" in site.said
    wait_until(lambda: len(site.kubectl.json("get", "pods", "-n", SYSTEM)["items"]) == 2)
    conditions = site.kubectl.json("get", "deployment", "hostler-scheduler", "-n", SYSTEM)["status"]["conditions"]
    assert "ReplicaFailure" not in {one["type"] for one in conditions}


def test_its_calls_are_queued_with_those_of_kube_scheduler(site):
    schemas = {item["metadata"]["name"]: item for item in site.kubectl.json("get", "flowschemas")["items"]}
    for ours, theirs in (
        ("hostler-scheduler", "kube-scheduler"),
        ("hostler-leader-election", "system-leader-election"),
    ):
        levels = [schemas[name]["spec"]["priorityLevelConfiguration"]["name"] for name in (ours, theirs)]
        assert levels[0] == levels[1]
        assert (
            schemas[ours]["spec"]["matchingPrecedence"]
            < schemas["kube-system-service-accounts"]["spec"]["matchingPrecedence"]
        )
        assert {c["type"]: c["status"] for c in schemas[ours]["status"]["conditions"]} == {"Dangling": "False"}


def test_own_account_may_place_preempt_explain_and_bind_volumes(site):
    kubectl = site.kubectl
    with site.run() as running:
        _place_a_gang(kubectl)
        _preempt(kubectl)
        _refuse(kubectl)
        _bind_volumes(kubectl)
    assert " stopped " in running.log.splitlines()[-1]
    assert not kubectl("get", "lease", "hostler-scheduler", "-n", SYSTEM, "-o", "jsonpath={.spec.holderIdentity}")
    asked = list(site.asked())
    assert {code for _, code in asked if code in (401, 403)} == set()
    used = {deed for deed, _ in asked} - EVERYBODYS
    rights = granted(rendered(KUSTOMIZE / "base", kubectl))
    assert used <= rights
    assert rights - used <= set(ELSEWHERE)


def test_probes_are_answered_and_metrics_are_for_those_who_may(site):
    token = {name: site.cluster.token(name) for name in ("admin", "nobody")}
    with site.run() as running:
        (address,) = re.findall(r"at (https://127\.0\.0\.1:[0-9]+)", running.log)
        (container,) = site.spec["containers"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert ask(address + container[probe]["httpGet"]["path"])[0] == 200
        assert ask(f"{address}/metrics")[0] == 401
        assert ask(f"{address}/metrics", token["nobody"])[0] == 403
        status, text = ask(f"{address}/metrics", token["admin"])
    assert status == 200
    asked = {name for rule in ALERTS for name in metrics_in(rule["expr"])}
    assert {name for name in asked if name.removesuffix("_bucket") not in text} == set()


def ask(url, token=""):
    """Get a page from a server with a self-signed certificate."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, context=trusting, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_what_the_scheduler_asks_for_at_its_start_is_granted(site):
    election = read_settings(str(site.config)).election
    wanted = {(right.verb, right.group, right.resource) for right in rights_for(election)}
    assert wanted <= granted(rendered(KUSTOMIZE / "base", site.kubectl))


@pytest.mark.parametrize(
    ("verb", "resource"), [("create", "pods/binding"), ("watch", "nodes"), ("patch", "pods/status"), ("delete", "pods")]
)
def test_a_verb_that_is_missing_is_named(site, verb, resource):
    objects = rendered(KUSTOMIZE / "base", site.kubectl)
    role = one(objects, "ClusterRole")
    less = [
        {**rule, "resources": [name], "verbs": [word for word in rule["verbs"] if (word, name) != (verb, resource)]}
        for rule in role["rules"]
        for name in rule["resources"]
    ]
    try:
        site.kubectl(
            "replace", "-f", "-", stdin=yaml.safe_dump({**role, "rules": [rule for rule in less if rule["verbs"]]})
        )
        with site.run(is_awaited=False) as running:
            wait_until(lambda: f"not allowed to {verb} {resource}" in running.log)
    finally:
        site.kubectl("replace", "-f", "-", stdin=yaml.safe_dump(role))


def _place_a_gang(kubectl):
    kubectl.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "crew", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        },
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "older", "namespace": "default"},
            "spec": {"minMember": 2},
        },
        *[pod(f"crew-{number}", schedulingGroup={"podGroupName": "crew"}) for number in range(3)],
        *[pod(f"older-{number}", labels={"scheduling.x-k8s.io/pod-group": "older"}) for number in range(2)],
    )
    kubectl.wait_until_placed("crew-0", "crew-1", "crew-2", "older-0", "older-1")


def _preempt(kubectl):
    kubectl.apply(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000},
        *[pod(f"filler-{number}", "7", terminationGracePeriodSeconds=1) for number in range(4)],
    )
    kubectl.wait_until_placed(*[f"filler-{number}" for number in range(4)])
    kubectl.apply(pod("urgent", "6", priorityClassName="urgent"))
    kubectl.wait_until_placed("urgent")
    left = kubectl("get", "pods", "-o", "name")
    assert sum(f"pod/filler-{number}\n" in left for number in range(4)) == 3


def _refuse(kubectl):
    kubectl.apply(pod("huge", "100"))

    def event():
        found = kubectl.json("get", "events.events.k8s.io", "--field-selector", "reason=FailedScheduling")["items"]
        return next((one for one in found if one["regarding"]["name"] == "huge"), {})

    wait_until(event)
    conditions = kubectl.json("get", "pod", "huge")["status"]["conditions"]
    assert [one["message"] for one in conditions if one["reason"] == "Unschedulable"] == [event()["note"]]


def _bind_volumes(kubectl):
    for name, provisioner in (("made", "example.com/maker"), ("found", "kubernetes.io/no-provisioner")):
        kubectl.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "storageClassName": name,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                "storageClassName": "found",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "local": {"path": "/disk"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}
                                ]
                            }
                        ]
                    }
                },
            },
        },
        *[
            pod(name, volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": name}}])
            for name in ("made", "found")
        ],
    )
    assert kubectl.wait_until_placed("found") == ["node-2"]
    chosen = "jsonpath={.metadata.annotations.volume\\.kubernetes\\.io/selected-node}"
    wait_until(lambda: kubectl("get", "pvc", "made", "-o", chosen))
