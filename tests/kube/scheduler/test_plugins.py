"""Third-party plugins on a live cluster: found by entry point, reloaded by SIGHUP, and named when they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from hostler.kube.local import LocalCluster
from tests.cli.cli_in_process import hostler
from tests.wait import GIVE_UP_S, wait_until

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/hostler-scheduler"
MODULE = """
import time

import numpy as np

import hostler

class Moody:
    name = "moody"
    reasons = (
        hostler.ReasonKind(code="is in a bad mood", meaning="It says no.", is_resolvable=False, cures=frozenset()),
    )

    def __init__(self, view, args):
        self._view = view

    def evaluate(self, spec, rows):
        if dict(spec.requests).get("cpu") == 2000:
            raise ZeroDivisionError("who divides by zero?")
        return np.zeros(len(rows), np.int64)

class Picky(Moody):
    name = "picky"
    reasons = (
        hostler.ReasonKind(code="is not good enough", meaning="It says no.", is_resolvable=False, cures=frozenset()),
    )

    def evaluate(self, spec, rows):
        return np.array([not self._view.host(row).name.endswith("1") for row in rows.tolist()], np.int64)

class Hopeless(Moody):
    name = "hopeless"

    def evaluate(self, spec, rows):
        raise ValueError("never again")

class Homesick(Moody):
    name = "homesick"

    def __init__(self, view, args):
        try:
            view.host(0)
        except LookupError:
            return
        raise SystemExit("too many strangers")

class Sleepy(Moody):
    name = "sleepy"

    def evaluate(self, spec, rows):
        if dict(spec.requests).get("cpu") == 2000:
            print("falls asleep", flush=True)
            time.sleep(3600)
        return np.zeros(len(rows), np.int64)
"""
FILE = """\
apiVersion: hostler/v1
kind: Scheduler
policies: [{name: mine, extends: kubernetes, filters: [resources, %s]}]
profiles: [{policy: mine}]
listen: ""
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install a distribution with plugins, as far as Python can see; return its folder."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / "frost-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: frost\nVersion: 1.0\n")
    names = {"moody": "Moody", "picky": "Picky", "hopeless": "Hopeless", "broken": "Missing"}
    names |= {"sleepy": "Sleepy", "homesick": "Homesick"}
    lines = "".join(f"{key} = frost_module:{value}\n" for key, value in names.items())
    (info / "entry_points.txt").write_text(f"[hostler.plugins]\n{lines}")
    (folder / "frost_module.py").write_text(MODULE)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster.start("plugins", tmp_path_factory.mktemp("plugins"), nodes=3, dies_with_us=True) as running:
        yield running


@pytest.fixture
def api(cluster):
    with cluster.api() as connection:
        yield connection
        for one in connection.call("GET", PODS)["items"]:
            connection.send("DELETE", f"{PODS}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})


@pytest.fixture
def scheduler(cluster, site, tmp_path):
    """Return a function that starts a scheduler with a filter; what it does is ended with the test."""
    started = []

    def start(plugin):
        file, log = tmp_path / "scheduler.yaml", tmp_path / "log"
        file.write_text(FILE % plugin)
        words = ["kube", "schedule", "--config", str(file), "--kubeconfig", str(cluster.kubeconfig("hostler"))]
        paths = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH", ""))))
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "hostler", *words],
                stdout=output, stderr=output, env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip
        started.append(process)
        return process, file, log

    yield start
    for process in started:
        process.terminate()
        assert process.wait(30) == 0


def put(api, name, cpu="1"):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "hostler-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0}
    api.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})


def where(api, name):
    return api.call("GET", f"{PODS}/{name}")["spec"].get("nodeName", "")


def why(api, name):
    conditions = api.call("GET", f"{PODS}/{name}")["status"].get("conditions", ())
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def test_a_plugin_that_fails_on_a_pod_stops_only_that_pod(api, scheduler):
    scheduler("moody")
    put(api, "cursed", "2")
    put(api, "web")
    wait_until(lambda: where(api, "web"))
    wait_until(lambda: "who divides by zero?" in why(api, "cursed"))
    assert not where(api, "cursed")


def test_another_plugin_counts_after_the_file_was_read_again(api, scheduler):
    process, file, log = scheduler("moody")
    put(api, "first")
    wait_until(lambda: where(api, "first"))
    file.write_text(FILE % "broken")
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: "cannot be imported" in log.read_text())
    file.write_text(FILE % "picky")
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: "SIGHUP: " in log.read_text().partition("cannot be imported")[2])
    for number in range(4):
        put(api, f"late-{number}")
    wait_until(lambda: all(where(api, f"late-{number}") for number in range(4)))
    assert {where(api, f"late-{number}")[-1] for number in range(4)} == {"1"}


def test_a_plugin_that_always_fails_does_not_end_the_scheduler(api, scheduler):
    process, _, _ = scheduler("hopeless")
    put(api, "web")
    wait_until(lambda: "never again" in why(api, "web"))
    assert process.poll() is None


def test_a_plugin_that_cannot_be_made_once_there_are_nodes_changes_nothing(api, scheduler):
    process, file, log = scheduler("moody")
    put(api, "first")
    wait_until(lambda: where(api, "first"))
    file.write_text(FILE % "homesick")
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: "too many strangers" in log.read_text())
    assert "SIGHUP: policy" not in log.read_text()
    assert "SIGHUP: nothing changed: the file is invalid" in log.read_text()
    put(api, "second")
    wait_until(lambda: where(api, "second"))


def test_a_plugin_that_hangs_does_not_keep_the_process_from_its_end(api, scheduler):
    process, _, log = scheduler("sleepy")
    put(api, "cursed", "2")
    wait_until(lambda: "falls asleep" in log.read_text())
    process.terminate()
    assert process.wait(GIVE_UP_S) == 0
    assert " stopped " in log.read_text()
    assert api.call("GET", LEASE)["spec"].get("holderIdentity", "") == ""


def test_unknown_plugin_is_rejected_before_the_cluster_is_contacted(tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(FILE % "frobnicate")
    result = hostler("kube", "schedule", "--config", str(file), "--kubeconfig", str(tmp_path / "nowhere"))
    assert result.code == 2
    assert "names plugin 'frobnicate', which is neither built in nor installed" in result.error


def test_an_election_that_only_the_flag_turns_on_is_checked_too(tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: hostler/v1\nkind: Scheduler\nelection: {enabled: false}\nlimits: {bind_timeout: 20s}\n"
    )
    words = ("kube", "schedule", "--config", str(file), "--kubeconfig", str(tmp_path / "nowhere"))
    assert "nowhere" in hostler(*words).error
    result = hostler(*words, "--leader-elect")
    assert result.code == 2
    assert "outlive the lease" in result.error
