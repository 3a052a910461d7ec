"""The part of a real API server that one test uses: nodes, pods, scheduler processes, and checks.

Every test has its own scheduler name, lease, namespace and labelled nodes, so that several share one control plane.
There is no kubelet: bound pods count where they are bound, and a deleted pod ends when the test says so.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hostler.kube.local import LocalCluster
from tests.kube.real.history import History
from tests.wait import wait_for_exit, wait_until

_HOSTLER = (sys.executable, "-c", "import sys; from hostler.cli.main import main; sys.exit(main())")
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LABEL = "test-cluster"
_QUIET_S = 1.5

Json = dict[str, Any]


class SchedulerProcess:
    """One scheduler process."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, preexec_fn=_die_with_us)

    @property
    def said(self) -> str:
        """Return its log so far."""
        return self._log.read_text()

    def until(self, words: str) -> SchedulerProcess:
        """Wait for words in its log; it must still be alive."""
        wait_until(lambda: words in self.said or self.process.poll() is not None)
        assert words in self.said, self.said
        return self

    def ended(self) -> int:
        """Wait for its end and return the status."""
        return wait_for_exit(self.process, lambda: self.said)

    def signal(self, number: signal.Signals) -> SchedulerProcess:
        """Send a signal."""
        self.process.send_signal(number)
        return self

    def kill(self) -> None:
        """Kill it, like a crash of its machine."""
        self.process.kill()
        self.process.wait()


class RealCluster:
    """The nodes, pods and schedulers of one test."""

    def __init__(self, control_plane: LocalCluster, name: str, folder: Path) -> None:
        self.control_plane, self.name, self.folder = control_plane, name, folder
        self.policy = "kubernetes"
        self.running: list[SchedulerProcess] = []
        self.history = History(control_plane, name)
        self._nodes: list[str] = []

    def close(self) -> None:
        """Stop the schedulers and delete the nodes."""
        for one in self.running:
            one.kill()
        self.history.close()
        with self.control_plane.api() as api:
            for node in self._nodes:
                api.send("DELETE", f"/api/v1/nodes/{node}")

    # -- objects ---------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """Call the API server as the administrator."""
        with self.control_plane.api() as api:
            return api.call(method, path, body)

    def add_nodes(self, count: int, **allocatable: str) -> list[str]:
        """Make nodes of two CPUs, unless told otherwise."""
        return [self.add_node({"cpu": "2", "memory": "8Gi", "pods": "110"} | allocatable) for _ in range(count)]

    def add_node(self, allocatable: Mapping[str, str] | None) -> str:
        """Create a node; without amounts it is one whose kubelet has not reported yet."""
        name = f"{self.name}-n{len(self._nodes)}"
        status = {} if allocatable is None else {"allocatable": allocatable, "capacity": allocatable}
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        metadata = {"name": name, "labels": {_LABEL: self.name, "kubernetes.io/hostname": name}}
        self.call("POST", "/api/v1/nodes", {"metadata": metadata, "status": {**status, "conditions": conditions}})
        self._nodes.append(name)
        return name

    def pod(self, name: str, cpu: str = "500m", *, metadata: Json | None = None, **spec: Any) -> Json:
        """Write a pod of ours."""
        requests = {"cpu": cpu, **spec.pop("requests", {})}
        limits = {key: value for key, value in requests.items() if "/" in key}
        container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}
        basis = {
            "schedulerName": self.name,
            "nodeSelector": {_LABEL: self.name},
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        }
        return {"metadata": {"name": name, **(metadata or {})}, "spec": {**basis, **spec}}

    def create(self, *pods: Json) -> None:
        """Make pods."""
        with self.control_plane.api() as api:
            for pod in pods:
                api.call("POST", self.path("pods"), pod)

    def add_pods(self, count: int, prefix: str = "pod", cpu: str = "10m", **spec: Any) -> None:
        """Create equal pods."""
        self.create(*(self.pod(f"{prefix}-{number}", cpu, **spec) for number in range(count)))

    def add_gang(self, name: str, count: int, cpu: str) -> None:
        """Make a group that needs all its pods, and the pods."""
        group = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
        group |= {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
        self.call("POST", f"/apis/scheduling.k8s.io/v1beta1/namespaces/{self.name}/podgroups", group)
        self.add_pods(count, name, cpu, schedulingGroup={"podGroupName": name})

    def add_priority(self, name: str, value: int) -> None:
        """Make a priority class, unless there is one."""
        body = {"metadata": {"name": name}, "value": value}
        with self.control_plane.api() as api:
            api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)

    def remove(self, pod: str) -> None:
        """Delete a pod at once, as its kubelet does after its grace period."""
        self.call("DELETE", f"{self.path('pods')}/{pod}", {"gracePeriodSeconds": 0})

    def path(self, plural: str) -> str:
        """Return the path of a collection in our namespace."""
        return f"/api/v1/namespaces/{self.name}/{plural}"

    # -- schedulers ------------------------------------------------------------------------------------------------

    def start(
        self, *, port: int = 0, kubeconfig: Path | None = None, awaited: bool = True, listen: str = "none"
    ) -> SchedulerProcess:
        """Start a scheduler, through a proxy's port if one is given; wait until it schedules."""
        number = len(self.running)
        path = kubeconfig or self.control_plane.kubeconfig("hostler")
        if port:
            access = path.read_text().replace(str(self.control_plane.state.ports.apiserver), str(port))
            path = self.folder / f"kubeconfig-{number}"
            path.write_text(access)
        words = ["kube", "schedule", "--config", str(self.config()), "--kubeconfig", str(path), "--listen", listen]
        running = SchedulerProcess([*_HOSTLER, *words], self.folder / f"scheduler-{number}.log")
        self.running.append(running)
        return running.until(" scheduling nodes=") if awaited else running

    def config(self) -> Path:
        """Write the scheduler's configuration; return its path."""
        path = self.folder / "scheduler.yaml"
        content = {
            "apiVersion": "hostler/v1",
            "kind": "Scheduler",
            "profiles": [{"scheduler_name": self.name, "policy": self.policy}],
            # Short, so that tests of what comes after a lease are; long enough for a busy machine to keep it.
            "election": {"name": self.name, "lease": "10s", "renew": "6s", "retry": "500ms"},
            "limits": {"bind_timeout": "3s", "call_timeout": "5s"},
            "queue": {"backoff_initial": "200ms", "backoff_max": "1s"},
            "listen": "",
        }
        path.write_text(yaml.safe_dump(content))
        return path

    # -- the truth -------------------------------------------------------------------------------------------------

    def pods(self) -> dict[str, Json]:
        """Return all pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.call("GET", self.path("pods"))["items"]}

    def bound(self) -> dict[str, str]:
        """Return the nodes of bound pods by name."""
        return {name: node for name, pod in self.pods().items() if (node := pod["spec"].get("nodeName"))}

    def why(self, pod: str) -> tuple[str, str]:
        """Return reason and message of a pod's condition PodScheduled; empty if there is none."""
        for condition in self.pods()[pod].get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return condition.get("reason", ""), condition.get("message", "")
        return "", ""

    def events(self, reason: str) -> list[Json]:
        """Return the events with a reason."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.name}/events?fieldSelector=reason={reason}"
        found: list[Json] = self.call("GET", path)["items"]
        return found

    def wait_for(self, count: int, prefix: str = "") -> dict[str, str]:
        """Wait until this many pods have a node."""

        def look() -> dict[str, str]:
            return found if len(found := self._bound_as(prefix)) >= count else {}

        return wait_until(look, f"{count} pods with a node", saw=lambda: self._bound_as(prefix))

    def _bound_as(self, prefix: str) -> dict[str, str]:
        return {name: node for name, node in self.bound().items() if name.startswith(prefix)}

    def settle(self, **minimums: int) -> dict[str, str]:
        """Wait until nothing happens any more, check the invariants, and return the nodes of pods."""

        def look() -> bool:
            before = _outcome(self.pods())
            if not all(before.values()):
                return False
            time.sleep(_QUIET_S)
            return _outcome(self.pods()) == before

        wait_until(look)
        self.check(minimums)
        return self.bound()

    def check(self, minimums: Mapping[str, int]) -> None:
        """Check by the API: no overcommitted node, no pod bound twice, whole gangs, reasons at waiting pods."""
        pods, used = self.pods(), Counter[str]()
        for pod in pods.values():
            requests = [one["resources"].get("requests", {}) for one in pod["spec"]["containers"]]
            used[pod["spec"].get("nodeName", "")] += sum(_milli(one.get("cpu", "0")) for one in requests)
        for node in self._nodes:
            free = self.call("GET", f"/api/v1/nodes/{node}").get("status", {}).get("allocatable", {}).get("cpu", "0")
            assert used[node] <= _milli(free), f"{node} is overcommitted"
        assert self.history.problems == []
        moved = {uid: nodes for uid, nodes in self.history.nodes.items() if len(nodes) > 1}
        assert moved == {}
        told = Counter(event["regarding"]["uid"] for event in self.events("Scheduled"))
        assert [uid for uid, count in told.items() if count > 1] == []
        for gang, minimum in minimums.items():
            placed = len(self._bound_as(f"{gang}-"))
            assert placed == 0 or placed >= minimum, f"{gang} has {placed} of {minimum}"
        assert all(_outcome(pods).values())


def _outcome(pods: Mapping[str, Json]) -> dict[str, str]:
    """Return the outcome of each pod: its node, why it has none, or an empty string."""
    return {
        name: pod["spec"].get("nodeName", "")
        or next(
            (
                condition.get("message", "")
                for condition in pod.get("status", {}).get("conditions", ())
                if condition["type"] == "PodScheduled" and condition["status"] == "False"
            ),
            "",
        )
        for name, pod in pods.items()
    }


def _milli(cpu: str) -> int:
    """Read an amount of CPUs as the server writes it."""
    powers = {"m": 0, "k": 6, "M": 9, "G": 12, "T": 15, "P": 18, "E": 21}
    return int(float(cpu[:-1]) * 10 ** powers[cpu[-1]]) if cpu[-1] in powers else int(float(cpu) * 1000)


def _die_with_us() -> None:
    os.setpgid(0, 0)  # a terminal's interrupt is ours, not the scheduler's
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
