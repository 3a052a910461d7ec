"""The guide to Kubernetes input is true: its commands end as it says, and its files do what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hostler.manifests.kinds import struct_of
from tests.cli.running import hostler

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guides" / "kubernetes.md").read_text()
COMMANDS = re.findall(r"^\$ hostler (.*?)(?: # exit ([0-9]))?$", TEXT, re.MULTILINE)
ANNOTATED, FLEET = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", pods: "10"}}
---
"""


@pytest.mark.parametrize(("command", "code"), COMMANDS)
def test_a_command_can_be_typed_as_it_stands(command, code, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert hostler(*shlex.split(command)).code == int(code or 0)


def test_every_kind_that_is_named_is_read():
    kinds = [kind for row in re.findall(r"^\| ([A-Z][A-Za-z, ]+) \|", TEXT, re.MULTILINE) for kind in row.split(", ")]
    groups = ("v1", "apps/v1", "batch/v1", "policy/v1", "scheduling.k8s.io/v1", "scheduling.x-k8s.io/v1alpha1")
    assert len(set(kinds)) == 14
    assert all(any(struct_of(group, kind) for group in groups) for kind in kinds)


def test_the_message_of_the_guide_is_that_of_the_demo(monkeypatch):
    monkeypatch.chdir(ROOT)
    data = hostler("explain", "-f", "demo/cluster.yaml", "--policy", "kubernetes", "huge", "-o", "json").json
    assert f"`{data['message']}`" in TEXT


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
