"""``hostler kube demo`` on a real cluster: it shows what it says, leaves nothing behind, and builds nothing if told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.cli_in_process import hostler
from tests.kube.local.process_list import processes_about
from tests.wait import wait_until

pytestmark = pytest.mark.early

DEMO = [sys.executable, "-m", "hostler", "kube", "demo"]


@pytest.fixture
def place(tmp_path):
    """Return the folder for temporary files of a demo; it is empty again after it."""
    (tmp_path / "tmp").mkdir()
    yield tmp_path / "tmp"
    assert list((tmp_path / "tmp").iterdir()) == []
    assert processes_about(tmp_path / "tmp") == {}


def started(place):
    environment = {**os.environ, "TMPDIR": str(place), "XDG_STATE_HOME": str(place.parent / "state"), "COLUMNS": "200"}
    return subprocess.Popen(
        DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def after(text, heading):
    """Return the part of the output below a heading."""
    return text.partition(f"== {heading}")[2].partition("\n== ")[0]


def rows(text):
    """Return the rows of a table of pods: name to node."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1].lstrip("-").isdigit():
            found[words[0]] = words[2]
    return found


def test_demo_shows_every_example_and_removes_its_cluster(place):
    out, err = started(place).communicate(timeout=500)
    assert "the demo's cluster and its files are removed" in out, out + err
    priority = rows(after(out, "Priority"))
    assert priority["web"].startswith("node-")
    assert sum(node == "-" for node in priority.values()) == 3
    alone = rows(after(out, "One pod on each node"))
    nodes = [node for node in alone.values() if node != "-"]
    assert len(alone) == 6
    assert len(nodes) == len(set(nodes)) == 5
    gang = rows(after(out, "A gang"))
    assert [gang[f"too-big-{number}"] for number in range(6)] == ["-"] * 6
    assert "-" not in [gang[f"train-{number}"] for number in range(4)]
    preemption = after(out, "Preemption")
    assert rows(preemption)["urgent"].startswith("node-")
    assert preemption.count(" was evicted: ") == 1 + 3
    assert "error" not in err


def test_interrupted_demo_removes_its_cluster(place):
    process = started(place)
    for line in process.stdout:
        if line.startswith("== Priority"):
            break
    assert processes_about(place)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # an impatient user does not prevent it
    process.communicate(timeout=120)
    assert process.returncode == 130


def test_demo_interrupted_while_the_cluster_starts_leaves_nothing(place):
    process = started(place)
    wait_until(lambda: any(place.iterdir()) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 130


def test_demo_builds_nothing_if_told_so(place, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    ended = hostler("kube", "demo", "--no-build")
    assert ended.code == 1
    assert "left out" in ended.out
    assert "etcd" in ended.out
    assert not (tmp_path / "empty").exists()
