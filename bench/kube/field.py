"""The field of a contest: a fresh etcd and API server, objects created fast, and a scheduler in its own process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.kube.objects import NAMESPACE, Json
from hostler.kube.api.access import read_access
from hostler.kube.api.client import Client
from hostler.kube.api.failures import ApiError
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.local.cluster import LocalCluster

__all__ = ["OURS", "THEIRS", "Cost", "Field", "Runner", "connect", "create_all", "open_field"]

OURS, THEIRS = "hostler", "kube-scheduler"
_IN_FLIGHT = 48
_TICKS = os.sysconf("SC_CLK_TCK")
_PATHS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "PodGroup": f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups",
    "Service": f"/api/v1/namespaces/{NAMESPACE}/services",
    "FlowSchema": "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
}


class Field(msgspec.Struct):
    """A running cluster without a scheduler."""

    cluster: LocalCluster

    def kubeconfig(self, user: str = "admin") -> Path:
        """Return how a user reaches it."""
        return self.cluster.kubeconfig(user)


@contextmanager
def open_field() -> Iterator[Field]:
    """Start a bare cluster, and leave nothing of it behind."""
    with TemporaryDirectory(prefix="hostler-bench-") as folder:
        place = Path(folder) / "cluster"
        with LocalCluster.start("bench", place, bare=True, dies_with_us=True) as cluster:
            yield Field(cluster)


def connect(field: Field, user: str = "admin") -> Client:
    """Connect as a user."""
    access = read_access(field.kubeconfig(user), "")
    return Client(AiohttpTransport(access, max_connections=_IN_FLIGHT + 16), user_agent="bench")


async def create_all(client: Client, objects: Sequence[Json]) -> None:
    """Create objects, many at once."""
    waiting = iter(objects)

    async def work() -> None:
        for body in waiting:
            try:
                await client.post(_PATHS[str(body["kind"])], body, timeout_s=60)
            except ApiError as error:
                if error.status != 409:
                    raise

    async with asyncio.TaskGroup() as group:
        for _ in range(_IN_FLIGHT):
            group.create_task(work())


def same_priority_level() -> Json:
    """Let our user wait in the same line of API fairness as kube-scheduler's (workload-high)."""
    subject = {"kind": "User", "user": {"name": "hostler"}}
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "clusterScope": True, "namespaces": ["*"]}
    paths = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "hostler-bench"},
        "spec": {
            "priorityLevelConfiguration": {"name": "workload-high"},
            "matchingPrecedence": 800,
            "distinguisherMethod": {"type": "ByNamespace"},
            "rules": [{"subjects": [subject], "resourceRules": [rule], "nonResourceRules": [paths]}],
        },
    }


class Cost(msgspec.Struct, frozen=True):
    """What a process took: seconds of processor time, and megabytes at its peak."""

    cpu_s: float
    memory_mb: float


class Runner:
    """A scheduler in a process of its own, ours or theirs, which place the pods that name them."""

    def __init__(self, which: str, field: Field) -> None:
        self.which = which
        self._field = field
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0.0

    @property
    def name(self) -> str:
        """Return what pods call it."""
        return "hostler-scheduler" if self.which == OURS else "default-scheduler"

    def start(self) -> None:
        """Start it."""
        self.started = time.perf_counter()
        if self.which == THEIRS:
            config = {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"qps": 5000, "burst": 5000},
                "leaderElection": {"leaderElect": False},
            }
            cluster = self._field.cluster
            started = LocalCluster.start(
                cluster.name, cluster.folder, parts=("scheduler",), scheduler_config=config, dies_with_us=True
            )
            self._field.cluster = started
            return
        words = [sys.executable, "-m", "hostler", "kube", "schedule", "--listen", ""]
        words += ["--kubeconfig", str(self._field.kubeconfig("hostler"))]
        log = (self._field.cluster.folder / "ours.log").open("wb")
        self._process = subprocess.Popen(words, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        """Return the process's number."""
        if self._process is not None:
            return self._process.pid
        return self._field.cluster.processes["scheduler"]

    def cost(self) -> Cost:
        """Read what it took so far."""
        return cost_of(self.pid)

    def stop(self) -> None:
        """End it."""
        if self._process is None:
            self._field.cluster.kill("scheduler")
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """Return the end of our log."""
        return (self._field.cluster.folder / "ours.log").read_text()[-2000:] if self.which == OURS else ""


def cost_of(pid: int) -> Cost:
    """Read what a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return Cost((int(fields[11]) + int(fields[12])) / _TICKS, int(peak.split()[1]) / 1024)
