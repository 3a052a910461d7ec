"""kube-scheduler writes its configuration with all defaults and merges: Hostler reads it with the same meaning."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from hostler.config import write_yaml
from hostler.engine import BUILT_IN
from hostler.kube.configuration import read_settings
from hostler.kube.local.binaries import find_binaries

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "users": [{"name": "none", "user": {}}],
    "current-context": "none",
}
# Those that score and filter; NodeResourcesFit stays, since room is always checked here.
SCORERS = ("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "ImageLocality")
FILTERS = ("NodePorts", "NodeName", "NodeUnschedulable", "VolumeZone")
STRATEGIES = ("LeastAllocated", "MostAllocated")


def _completed(folder: Path, content: dict[str, Any]) -> tuple[Path, Path]:
    """Write a configuration and what kube-scheduler makes of it; it is not started, so no cluster is needed."""
    kubeconfig, given, made = folder / "kubeconfig", folder / "given.yaml", folder / "made.yaml"
    kubeconfig.write_text(write_yaml(KUBECONFIG))
    client = {"clientConnection": {"kubeconfig": str(kubeconfig)}}
    given.write_text(write_yaml({**HEAD, "leaderElection": {"leaderElect": False}, **client, **content}))
    program = find_binaries(["kube-scheduler"], lambda _: None)["kube-scheduler"].path
    words = [str(program), "--config", str(given), "--write-config-to", str(made)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert made.exists(), done.stderr
    return given, made


def _profile(draw: random.Random, number: int) -> dict[str, Any]:
    """Return a profile that turns some plugins on and off, at several points."""

    def some(names: tuple[str, ...]) -> list[dict[str, Any]]:
        return [{"name": name} for name in draw.sample(names, draw.randrange(len(names)))]

    def weighted(names: tuple[str, ...]) -> list[dict[str, Any]]:
        return [{**one, "weight": draw.randrange(10)} for one in some(names)]

    plugins: dict[str, Any] = {
        "multiPoint": {"disabled": some((*SCORERS, *FILTERS)), "enabled": weighted(SCORERS)},
        "score": {"disabled": some(SCORERS), "enabled": weighted(SCORERS)},
        "filter": {"disabled": some(FILTERS), "enabled": some(FILTERS)},
    }
    if draw.random() < 0.3:
        plugins["score"]["disabled"] = [{"name": "*"}]
    if draw.random() < 0.3:
        plugins["postFilter"] = {"disabled": [{"name": "*"}]}
    fit = {"scoringStrategy": {"type": draw.choice(STRATEGIES), "resources": [{"name": "cpu", "weight": 3}]}}
    config = [{"name": "NodeResourcesFit", "args": fit}] if draw.random() < 0.5 else []
    return {"schedulerName": f"s{number}", "plugins": plugins, "pluginConfig": config}


def test_the_complete_defaults_are_the_built_in_policy(tmp_path):
    _, made = _completed(tmp_path, {})
    (policy,) = read_settings(str(made)).policies
    usual = BUILT_IN["kubernetes"]
    assert msgspec.structs.replace(policy, name=usual.name, summary=usual.summary) == usual


def test_merged_by_kube_scheduler_or_by_us_profiles_mean_the_same(tmp_path):
    draw = random.Random(20)
    given, made = _completed(tmp_path, {"profiles": [_profile(draw, number) for number in range(30)]})
    ours, theirs = read_settings(str(given)), read_settings(str(made))
    assert ours.policies == theirs.policies
    assert (ours.queue, ours.election, ours.limits) == (theirs.queue, theirs.election, theirs.limits)
    assert len({msgspec.structs.replace(policy, name="") for policy in ours.policies}) == 30
