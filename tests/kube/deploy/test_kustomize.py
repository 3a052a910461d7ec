"""The manifests render with our kubectl, and keep rules that no server checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from hostler.config import parse_documents, read_documents
from hostler.kube.configuration import read_document
from tests.kube.deploy.clusters import ROOT, Kubectl, one, rendered

KUSTOMIZE = ROOT / "deploy" / "kustomize"
BASES = ["base", "overlays/ha", "overlays/default-scheduler"]


@pytest.fixture(scope="module")
def kubectl():
    return Kubectl(Path("/nowhere"))


def with_components(folder, *names, **more):
    """Write a kustomization of the base and components, as a user's own would be."""
    lines = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(Path("deploy") / "base")],
        "components": [str(Path("deploy") / "components" / name) for name in names],
        **more,
    }
    (folder / "deploy").symlink_to(KUSTOMIZE)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(lines))
    return folder


def pod_spec(objects):
    return one(objects, "Deployment")["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", BASES)
def test_it_renders_and_every_image_has_a_version(kubectl, name):
    spec = pod_spec(rendered(KUSTOMIZE / name, kubectl))
    images = {container["image"] for container in (*spec["containers"], *spec["initContainers"])}
    assert images == {"registry.example/hostler:0.1.0"}


@pytest.mark.parametrize("name", BASES)
def test_no_container_has_rights_that_it_does_not_need(kubectl, name):
    spec = pod_spec(rendered(KUSTOMIZE / name, kubectl))
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", BASES)
def test_no_rule_has_a_star_and_the_lease_is_the_one_of_the_file(kubectl, name):
    objects = rendered(KUSTOMIZE / name, kubectl)
    for role in (item for item in objects if item["kind"] in ("Role", "ClusterRole")):
        assert "*" not in str(role["rules"])
    assert not any("secrets" in str(item.get("rules")) for item in objects)
    leases = one(objects, "Role")
    file = one(objects, "ConfigMap")["data"]["scheduler.yaml"]
    election = read_document(parse_documents(file.encode(), "scheduler.yaml")[0]).election
    # The namespace is the pod's own, whatever an overlay makes of it.
    (container,) = pod_spec(objects)["containers"]
    assert "--lease-namespace=$(POD_NAMESPACE)" in container["args"]
    (variable,) = [one for one in container["env"] if one["name"] == "POD_NAMESPACE"]
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
    assert leases["metadata"]["namespace"] == one(objects, "Deployment")["metadata"]["namespace"]
    assert [rule.get("resourceNames") for rule in leases["rules"]] == [None, [election.name]]


@pytest.mark.parametrize("name", ["base", "components/default-scheduler"])
def test_the_configuration_is_one_that_the_scheduler_reads(name):
    (document,) = read_documents([str(KUSTOMIZE / name / "scheduler.yaml")])
    settings = read_document(document)
    assert settings.election.name == "hostler-scheduler"
    assert settings.notes == ()


@pytest.mark.parametrize("name", BASES)
def test_probes_and_the_service_reach_the_port_that_is_listened_on(kubectl, name):
    objects = rendered(KUSTOMIZE / name, kubectl)
    (container,) = pod_spec(objects)["containers"]
    listen = yaml.safe_load(one(objects, "ConfigMap")["data"]["scheduler.yaml"])["listen"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert str(ports["https"]) == listen.rpartition(":")[2]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    assert {port["targetPort"] for port in one(objects, "Service")["spec"]["ports"]} <= set(ports)
    selector = one(objects, "Service")["spec"]["selector"]
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    assert one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_changed_file_gets_another_name_so_that_the_deployment_rolls(kubectl):
    names = set()
    for name in ("base", "overlays/default-scheduler"):
        objects = rendered(KUSTOMIZE / name, kubectl)
        (volume,) = [volume["configMap"] for volume in pod_spec(objects)["volumes"] if "configMap" in volume]
        assert volume["name"] == one(objects, "ConfigMap")["metadata"]["name"]
        names.add(volume["name"])
    assert len(names) == 2


def test_two_replicas_are_never_both_taken_by_a_drain_nor_on_one_node(kubectl):
    objects = rendered(KUSTOMIZE / "overlays" / "ha", kubectl)
    assert one(objects, "Deployment")["spec"]["replicas"] == 2
    assert one(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    constraints = pod_spec(objects)["topologySpreadConstraints"]
    assert [c["topologyKey"] for c in constraints if c["whenUnsatisfiable"] == "DoNotSchedule"] == [
        "kubernetes.io/hostname"
    ]


def test_components_can_be_combined_freely(kubectl, tmp_path):
    objects = rendered(with_components(tmp_path, "ha", "prometheus", "gang-crd", "default-scheduler"), kubectl)
    kinds = [item["kind"] for item in objects]
    assert {"ServiceMonitor", "PrometheusRule", "CustomResourceDefinition"} <= set(kinds)
    assert kinds.count("ConfigMap") == 1


def test_namespace_of_an_overlay_moves_everything(kubectl, tmp_path):
    folder = with_components(tmp_path, "ha", "prometheus", "gang-crd", "default-scheduler", namespace="placement")
    objects = rendered(folder, kubectl)
    assert "hostler-system" not in yaml.safe_dump_all(objects)
    subjects = [
        subject["serviceAccount"]["namespace"]
        for item in objects
        if item["kind"] == "FlowSchema"
        for rule in item["spec"]["rules"]
        for subject in rule["subjects"]
    ]
    assert subjects == ["placement", "placement"]


def test_the_alerts_of_the_operator_are_those_of_the_file():
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yaml").read_text())
    operator = yaml.safe_load((KUSTOMIZE / "components" / "prometheus" / "rule.yaml").read_text())
    assert operator["spec"] == rules


def test_prometheus_checks_the_certificate_by_its_issuer(kubectl, tmp_path):
    """Pods show the certificate of the Secret that holds the CA by which Prometheus checks it."""
    objects = rendered(with_components(tmp_path, "ha", "prometheus"), kubectl)
    spec = pod_spec(objects)
    assert "certificate" not in [container["name"] for container in spec["initContainers"]]
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "tls"]
    assert volume == {"name": "tls", "secret": {"secretName": "hostler-scheduler-tls", "defaultMode": 0o440}}
    service = one(objects, "Service")["metadata"]
    (endpoint,) = one(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {
        "serverName": service["name"],  # in any namespace
        "ca": {"secret": {"name": "hostler-scheduler-tls", "key": "ca.crt"}},
    }


def test_nothing_tells_anybody_to_skip_checking_a_certificate():
    """Neither manifests nor guides switch the check off."""
    files = [path for name in ("deploy", "docs", "src") for path in (ROOT / name).rglob("*") if path.is_file()]
    words = re.compile(rb"insecure_?skip_?(tls_?)?verify: *true", re.IGNORECASE)
    assert [str(path) for path in files if path.suffix != ".pyc" and words.search(path.read_bytes())] == []
