"""Run Kubernetes' own scheduling tests against a local cluster whose default scheduler is Hostler or kube-scheduler.

The cluster has the real controllers, and kwok in place of kubelets: pods become Running in their status only. Results
are read from ginkgo's report. Used by the tests here and by ``python -m tests.kube.e2e``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from hostler.kube.local import LocalCluster
from tests.wait import GIVE_UP_S, wait_until

__all__ = ["Outcome", "Scheduler", "e2e_cluster", "run_specs"]

Scheduler = Literal["ours", "kube-scheduler"]

NODES = 4
_AGENTS = "kube-proxy-fluentd-elasticsearch-node-problem-detector"
_FAKE_RESOURCE = "example.com/beardsecond"
_READY = " scheduling nodes="
_TO_CLEAN_UP_S = 90.0  # what a spec that ran out of time gets to take away what it made
_SECOND = 1_000_000_000


class Outcome(msgspec.Struct, frozen=True):
    """The result of one spec: passed, failed, timedout, skipped and so on, with the message of a failure."""

    state: str
    message: str
    seconds: float


class _Failure(msgspec.Struct, rename="pascal"):
    message: str = ""


class _Spec(msgspec.Struct, rename="pascal"):
    container_hierarchy_texts: list[str] | None
    leaf_node_text: str
    leaf_node_type: str
    state: str
    run_time: int = 0
    failure: _Failure = msgspec.field(default_factory=_Failure)

    @property
    def name(self) -> str:
        return " ".join([*(self.container_hierarchy_texts or []), self.leaf_node_text])


class _Suite(msgspec.Struct, rename="pascal"):
    spec_reports: list[_Spec]


@contextlib.contextmanager
def e2e_cluster(scheduler: Scheduler, folder: Path) -> Iterator[LocalCluster]:
    """Give a cluster of four nodes where this scheduler places the pods that name none."""
    parts = ["controllers", "kwok", *(["scheduler"] if scheduler == "kube-scheduler" else [])]
    with (
        LocalCluster.start(f"e2e-{scheduler}", folder / "cluster", nodes=NODES, parts=parts, dies_with_us=True) as made,
        _ours(made, folder / "hostler.log") if scheduler == "ours" else contextlib.nullcontext(),
    ):
        _furnish(made)
        yield made


def run_specs(
    binary: Path, cluster: LocalCluster, focus: str, folder: Path, *, skip: str = "", limit_s: int = 1200
) -> dict[str, Outcome]:
    """Run the specs whose names match a pattern; return the result of each by name."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    words = [
        str(binary),
        f"--kubeconfig={cluster.kubeconfig()}",
        "--provider=skeleton",
        f"--ginkgo.focus={focus}",
        *([f"--ginkgo.skip={skip}"] if skip else []),
        f"--ginkgo.timeout={limit_s}s",
        "--ginkgo.grace-period=20s",
        f"--ginkgo.json-report={report}",
        "--ginkgo.no-color",
        "--ginkgo.v",
        "--minStartupPods=0",
        "--system-pods-startup-timeout=5s",
        "--node-schedulable-timeout=20s",
    ]
    # Go tells its children where to write beside itself; a folder of ours keeps that together.
    with (folder / "e2e.log").open("wb") as output:
        subprocess.run(words, cwd=folder, stdout=output, stderr=subprocess.STDOUT, timeout=limit_s + _TO_CLEAN_UP_S)
    if not report.exists():
        tail = (folder / "e2e.log").read_text(errors="replace")[-2000:]
        raise AssertionError(f"e2e.test ended without a report:\n{tail}")
    suites = msgspec.json.decode(report.read_bytes(), type=list[_Suite])
    # Those that were not in focus count as skipped too, but without a word why.
    ran = [
        spec
        for suite in suites
        for spec in suite.spec_reports
        if spec.leaf_node_type == "It" and (spec.state != "skipped" or spec.failure.message)
    ]
    return {spec.name: Outcome(spec.state, spec.failure.message, round(spec.run_time / _SECOND, 1)) for spec in ran}


def _furnish(cluster: LocalCluster) -> None:
    """Give the nodes what kubelets and operators would: disks, and the agents that most specs wait a minute for.

    One spec adds a resource to the capacity of a node and expects the kubelet to offer it; one node does so already.
    """
    disk = {"ephemeral-storage": "100Gi"}
    with cluster.api() as api:
        api.call("PATCH", "/api/v1/nodes/node-0/status", {"status": {"allocatable": {_FAKE_RESOURCE: "1000"}}})
        for node in api.call("GET", "/api/v1/nodes")["items"]:
            name = node["metadata"]["name"]
            api.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"capacity": disk, "allocatable": disk}})
            # Placed by the scheduler: without a kubelet nobody else would tell that it is scheduled.
            spec = {
                "nodeSelector": {"kubernetes.io/hostname": name},
                "priorityClassName": "system-node-critical",
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "registry.example/none:1"}],
            }
            pod = {"metadata": {"name": f"{_AGENTS}-{name}"}, "spec": spec}
            api.call("POST", "/api/v1/namespaces/kube-system/pods", pod)


@contextlib.contextmanager
def _ours(cluster: LocalCluster, log: Path) -> Iterator[None]:
    """Run our scheduler as the cluster's default one, with no more rights than it has in a deployment."""
    words = ["kube", "schedule", "--scheduler-name", "default-scheduler", "--listen", ""]
    command = [sys.executable, "-m", "hostler", *words, "--kubeconfig", str(cluster.kubeconfig("hostler"))]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_until_ready(process, log)
            yield
        finally:
            _end(process)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    def is_ready() -> bool:
        assert process.poll() is None, f"our scheduler ended:\n{log.read_text()}"
        return _READY in log.read_text()

    wait_until(is_ready, "our scheduler to start", saw=log.read_text)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=GIVE_UP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
