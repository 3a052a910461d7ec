"""The guide to Kubernetes input is true: its commands end as it says, and its files do what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hostler.manifests.decoder import struct_of
from tests.cli.cli_in_process import hostler
from tests.docs.page_output import Page

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guides" / "manifests.md").read_text()
GROUPS, OLDER_GROUPS, ANNOTATED, FLEET = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
FILES = {"groups.yaml": GROUPS, "older-groups.yaml": OLDER_GROUPS}
WORKLOAD = """\
apiVersion: scheduling.k8s.io/v1alpha1
kind: Workload
metadata: {name: train}
spec: {podGroups: [{name: workers, policy: {gang: {minCount: 9}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec: {workloadRef: {name: train, podGroup: workers}, containers: [{name: main}]}
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", pods: "10"}}
---
"""


@pytest.mark.shown_output
def test_every_command_prints_what_the_guide_shows(monkeypatch, tmp_path):
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    for name, text in FILES.items():
        assert f"`{name}`:" in TEXT
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    page = Page("docs/guides/manifests.md")
    for step in page.steps:
        result = hostler(*shlex.split(step.command)[1:])
        page.compare(step, result.code, result.out + result.err)
    page.finish()


def test_every_kind_that_is_named_is_read():
    kinds = [kind for row in re.findall(r"^\| ([A-Z][A-Za-z, ]+) \|", TEXT, re.MULTILINE) for kind in row.split(", ")]
    groups = ("v1", "apps/v1", "batch/v1", "policy/v1", "scheduling.k8s.io/v1", "scheduling.x-k8s.io/v1alpha1")
    assert len(set(kinds)) == 14
    assert all(any(struct_of(group, kind) for group in groups) for kind in kinds)


def test_the_message_of_the_guide_is_that_of_the_demo(monkeypatch):
    monkeypatch.chdir(ROOT)
    data = hostler("explain", "-f", "demo/cluster.yaml", "--policy", "kubernetes", "huge", "-o", "json").json
    assert f"`{data['message']}`" in TEXT


def test_a_group_of_each_form_is_a_gang(tmp_path):
    (tmp_path / "g.yaml").write_text(f"{GROUPS}---\n{OLDER_GROUPS}")
    words = ("place", "-f", ROOT / "demo" / "cluster.yaml", "-f", tmp_path / "g.yaml", "--policy", "kubernetes")
    data = hostler(*words, "-o", "json").json
    assert data["gangs"] == [
        {
            "name": "train",
            "min_count": 2,
            "priority": 1000,
            "topology": "topology.kubernetes.io/zone",
            "disruption": "all",
        },
        {"name": "crew", "min_count": 2},
    ]
    hosts = {decision["guest"]: decision["host"] for decision in data["decisions"]}
    assert hosts["train-0"] == hosts["train-1"] != ""
    assert hosts["crew-0"] is hosts["crew-1"] is None


def test_a_workload_is_skipped_with_notes_and_its_pods_are_placed_singly(tmp_path):
    (tmp_path / "w.yaml").write_text(NODE + WORKLOAD)
    result = hostler("place", "-f", tmp_path / "w.yaml")
    assert (result.code, result.row("worker")) == (0, ["worker", "a"])
    assert result.err == (
        "note: Workload train: ignored\nnote: pod default/worker: spec.workloadRef is not evaluated\n"
    )


def test_pods_a_workload_has_yet_to_create_are_named_as_in_the_guide(tmp_path):
    daemons = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: main}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main}]}}
"""
    (tmp_path / "d.yaml").write_text(daemons)
    data = hostler("place", "-f", ROOT / "demo" / "cluster.yaml", "-f", tmp_path / "d.yaml", "-o", "json").json
    names = {decision["guest"] for decision in data["decisions"]}
    assert {"web-0", "web-1", "agent-worker-1", "db-0"} <= names


def test_the_annotated_pod_is_a_gang_of_one(tmp_path):
    (tmp_path / "p.yaml").write_text(NODE + ANNOTATED)
    data = hostler("place", "-f", tmp_path / "p.yaml", "--seed-annotations", "-o", "json").json
    assert data["gangs"] == [{"name": "trainers", "min_count": 1}]
    assert data["guests"][0]["priority"] == 100
    plain = hostler("place", "-f", tmp_path / "p.yaml", "-o", "json").json
    assert "gangs" not in plain
    assert "priority" not in plain["guests"][0]


def test_the_fleet_is_placed_and_can_be_fed_back(tmp_path):
    (tmp_path / "f.yaml").write_text(FLEET)
    first = hostler("place", "-f", tmp_path / "f.yaml", "-o", "yaml")
    assert (first.code, first.err) == (0, "")
    (tmp_path / "out.yaml").write_text(first.out)
    assert hostler("place", "-f", tmp_path / "out.yaml", "-o", "json").json["decisions"] == []
