"""``hostler kube up``, ``status``, ``logs`` and ``down``, on real clusters."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from select import select

import pytest

from hostler.kube.local.state import cluster_folder
from tests.cli.cli_in_process import hostler
from tests.kube.local.process_list import processes_about
from tests.wait import wait_until

HOSTLER = [sys.executable, "-c", "import sys; from hostler.cli.main import main; sys.exit(main())"]
# Ends all clusters when its input ends, as it does when the process at the other end dies in any way.
GUARD = "import sys; sys.stdin.read(); from hostler.cli.main import main; main(['kube', 'down', '--all'])"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return the folder of clusters of a user who has none yet; clusters that a test starts end with it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    guard = subprocess.Popen(
        [sys.executable, "-c", GUARD], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    yield tmp_path / "hostler" / "kube"
    guard.communicate()
    assert processes_about(tmp_path) == {}


def states(name):
    found = hostler("kube", "status", "--name", name, "-o", "json").json["clusters"][0]
    return {part["part"]: part["state"] for part in found["parts"]}


def test_two_clusters_run_side_by_side_and_end_one_by_one(folder):
    first = hostler("kube", "up", "--with", "none", "--nodes", "2")
    assert first.code == 0, first.err
    assert "etcd 3." in first.err
    assert "2 nodes are Ready (2 new)" in first.err
    assert f"  export KUBECONFIG={folder / 'local' / 'kubeconfig'}" in first.lines
    assert any(line.startswith("  hostler kube schedule --kubeconfig") for line in first.lines)
    second = hostler("kube", "up", "--name", "second", "--with", "none")
    assert second.code == 0, second.err
    assert "  hostler kube down --name second" in second.lines

    kubectl = next(line.split()[0] for line in first.lines if line.endswith(" get nodes"))
    for name, nodes in (("local", 2), ("second", 0)):
        words = [kubectl, "--kubeconfig", str(folder / name / "kubeconfig"), "get", "nodes", "-o", "name"]
        shown = subprocess.run(words, capture_output=True, text=True, check=True)
        assert len(shown.stdout.split()) == nodes

    table = hostler("kube", "status")
    assert table.code == 0
    assert len([line for line in table.lines if line.endswith("healthy")]) == 4
    assert hostler("kube", "down").out == "cluster local: ended apiserver, etcd; its data are removed\n"
    assert processes_about(folder / "local") == {}
    assert len(processes_about(folder / "second")) == 2
    assert hostler("kube", "down", "--all").code == 0
    assert processes_about(folder) == {}
    assert hostler("kube", "down", "--all").out == "there is no local cluster\n"


def test_what_was_killed_is_seen_by_status_and_mended_by_up(folder):
    assert hostler("kube", "up", "--with", "none").code == 0
    again = hostler("kube", "up")
    assert "all parts are running already" in again.err
    found = hostler("kube", "status", "-o", "json").json["clusters"][0]["parts"]
    before = {part["part"]: part["pid"] for part in found}
    os.kill(before["apiserver"], signal.SIGKILL)
    wait_until(lambda: states("local")["apiserver"] == "dead")
    assert hostler("kube", "status").code == 1
    mended = hostler("kube", "up")
    assert mended.code == 0, mended.err
    assert "etcd 3." not in mended.err
    assert states("local") == {"etcd": "healthy", "apiserver": "healthy"}


def test_parts_are_added_and_data_are_kept(folder):
    assert hostler("kube", "up", "--with", "none", "--nodes", "1").code == 0
    assert hostler("kube", "up", "--with", "scheduler").code == 0
    assert states("local") == {"etcd": "healthy", "apiserver": "healthy", "scheduler": "healthy"}
    assert hostler("kube", "down", "--keep-data").code == 0
    assert processes_about(folder) == {}
    assert set(states("local").values()) == {"stopped"}
    again = hostler("kube", "up", "--nodes", "1")
    assert "1 node is Ready (0 new)\n" in again.err
    assert "scheduler" in states("local")


def test_asking_for_less_than_there_is_takes_nothing_away_and_says_so():
    assert hostler("kube", "up", "--name", "big", "--with", "scheduler", "--nodes", "3").code == 0
    less = hostler("kube", "up", "--name", "big", "--with", "none", "--nodes", "2")
    assert less.code == 0, less.err
    assert "--with only adds parts: scheduler of cluster big stays" in less.err
    assert "2 nodes are Ready (0 new); the cluster has 3, and none is removed" in less.err
    assert states("big")["scheduler"] == "healthy"


def test_the_only_cluster_needs_no_name():
    assert hostler("kube", "up", "--name", "only", "--with", "none").code == 0
    shown = hostler("kube", "logs", "apiserver", "--tail", "1")
    assert (shown.code, len(shown.lines)) == (0, 1)
    refused = hostler("kube", "logs", "scheduler")
    assert refused.code == 2
    assert "cluster only has no scheduler, only etcd, apiserver" in refused.err
    assert refused.hint == "start it with 'hostler kube up --name only --with scheduler'"
    assert hostler("kube", "down").out.startswith("cluster only: ended apiserver, etcd")


def test_of_several_clusters_one_must_be_named(folder):
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        (folder / name / "cluster.json").write_text("{}")
    result = hostler("kube", "down")
    assert result.code == 2
    assert "there is no local cluster 'local'" in result.err
    assert result.hint == "there are one, two"
    shutil.rmtree(folder)


@pytest.mark.parametrize("moment", ["etcd", "apiserver"])
def test_what_a_killed_up_left_behind_is_ended_by_down(folder, moment):
    with subprocess.Popen([*HOSTLER, "kube", "up", "--with", "none"], stdout=subprocess.DEVNULL) as starting:
        wait_until(lambda: (folder / "local" / "run" / f"{moment}.json").exists())
        starting.kill()
    assert processes_about(folder)
    assert hostler("kube", "down").code == 0
    assert processes_about(folder) == {}


def test_logs_are_shown_by_part_and_to_the_last_line():
    assert hostler("kube", "up", "--with", "none").code == 0
    every = hostler("kube", "logs", "--tail", "3")
    assert {line.split(": ")[0] for line in every.lines} == {"etcd", "apiserver"}
    assert len(hostler("kube", "logs", "apiserver", "--tail", "3").lines) == 3
    with subprocess.Popen(
        [*HOSTLER, "kube", "logs", "apiserver", "--tail", "0", "-f"], stdout=subprocess.PIPE, text=True,
        # A shell starts background jobs with interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as follower:  # fmt: skip
        log = cluster_folder("local") / "logs" / "apiserver.log"

        def is_shown():
            with log.open("a") as file:
                file.write("a new line\n")
            assert follower.stdout is not None
            return select([follower.stdout], [], [], 0.2)[0]

        wait_until(is_shown)
        assert follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        follower.communicate()
    assert follower.returncode == 130


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["up", "--name", "../up"], "cannot be the name of a cluster", "lowercase letters"),
        (["up", "--with", "sheduler"], "no part of a local control plane is named 'sheduler'", "'scheduler'"),
        (["up", "--with", "none,kwok"], "'none' cannot stand beside parts", "alone"),
        (["up", "--gate", "GenericWorkload"], "does not open or close a gate", "NAME=true"),
        (["up", "--nodes", "-1"], "'--nodes'", "--help"),
        (["up", "--scheduler-config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read", "KubeScheduler"),
        (["status", "--name", "none-such"], "there is no local cluster 'none-such'", "hostler kube up"),
        (["logs"], "there is no local cluster 'local'", "hostler kube up"),
        (["down"], "there is no local cluster 'local'", "hostler kube up"),
        (["down", "--name", "../../x"], "cannot be the name", "lowercase letters"),
        (["down", "--all", "--name", "x"], "exclude each other", "leave one"),
        (["binaries", "kubelet"], "no program is named 'kubelet'", "kube"),
    ],
)
def test_bad_input_is_refused_with_a_hint_and_starts_nothing(folder, words, error, hint):
    result = hostler("kube", *words)
    assert result.code == 2
    assert error in result.err
    assert hint in result.hint
    assert processes_about(folder) == {}


def test_no_cluster_at_all_is_an_answer():
    assert hostler("kube", "status").out.startswith("there is no local cluster; start one with")
    assert hostler("kube", "status", "-o", "json").json == {"clusters": []}
