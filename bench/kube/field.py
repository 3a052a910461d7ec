"""The environment of a measurement: a fresh etcd and API server, fast creation of objects, and a scheduler process."""

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
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.local.cluster import LocalCluster

__all__ = ["OURS", "THEIRS", "BenchCluster", "Cost", "SchedulerProcess", "connect", "create_all", "open_field"]

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


class BenchCluster(msgspec.Struct):
    """A running cluster without a scheduler."""

    cluster: LocalCluster

    def kubeconfig(self, user: str = "admin") -> Path:
        """Return the kubeconfig of a user."""
        return self.cluster.kubeconfig(user)


@contextmanager
def open_field() -> Iterator[BenchCluster]:
    """Start a bare cluster, and remove it afterwards."""
    with TemporaryDirectory(prefix="hostler-bench-") as folder:
        place = Path(folder) / "cluster"
        with LocalCluster.start("bench", place, bare=True, dies_with_us=True) as cluster:
            yield BenchCluster(cluster)


def connect(field: BenchCluster, user: str = "admin") -> KubeClient:
    """Connect as a user."""
    access = read_access(field.kubeconfig(user), "")
    return KubeClient(AiohttpTransport(access, max_connections=_IN_FLIGHT + 16), user_agent="bench")


async def create_all(client: KubeClient, objects: Sequence[Json]) -> None:
    """Create objects, many in parallel."""
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
    """Put our user into the same priority level of API fairness as kube-scheduler's (workload-high)."""
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
    """The cost of a process: seconds of CPU time, and peak memory in megabytes."""

    cpu_s: float
    memory_mb: float


class SchedulerProcess:
    """A scheduler in a process of its own, Hostler or kube-scheduler, for the pods that name it."""

    def __init__(self, which: str, field: BenchCluster) -> None:
        self.which = which
        self._field = field
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0.0

    @property
    def name(self) -> str:
        """Return its scheduler name."""
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
        """Return its process id."""
        if self._process is not None:
            return self._process.pid
        return self._field.cluster.processes["scheduler"]

    def cost(self) -> Cost:
        """Return its cost so far."""
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
    """Return the cost of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return Cost((int(fields[11]) + int(fields[12])) / _TICKS, int(peak.split()[1]) / 1024)
