"""A cluster with kubectl and a scheduler process, driven by their command lines as a user would."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from hostler.kube.local import LocalCluster
from hostler.kube.local.binaries import find_binaries
from tests.wait import GIVE_UP_S, wait_until

ROOT = Path(__file__).parents[3]
HOSTLER = (sys.executable, "-c", "import sys; from hostler.cli.main import main; sys.exit(main())")
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


class Kubectl:
    """kubectl on one cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self.program = str(find_binaries(["kubectl"], print)["kubectl"].path)
        self._kubeconfig = str(kubeconfig)

    def __call__(self, *words: str, stdin: str = "", check: bool = True) -> str:
        """Run it and return what it printed."""
        command = [self.program, "--kubeconfig", self._kubeconfig, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout + ("" if check else done.stderr)

    def json(self, *words: str) -> Any:
        """Run it and return what it printed, read."""
        return json.loads(self(*words, "-o", "json"))

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply objects."""
        self("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def node_of(self, pod: str, namespace: str = "default") -> str:
        """Return the node of a pod, or an empty string."""
        return str(self("get", "pod", pod, "-n", namespace, "-o", "jsonpath={.spec.nodeName}"))

    def wait_until_placed(self, *pods: str, namespace: str = "default") -> list[str]:
        """Wait until pods have nodes, and return these."""
        wait_until(lambda: all(self.node_of(pod, namespace) for pod in pods))
        return [self.node_of(pod, namespace) for pod in pods]


class DeployedScheduler:
    """A scheduler in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """Return its log so far."""
        return self._log.read_text()


@contextmanager
def scheduling(
    kubeconfig: Path, folder: Path, words: Sequence[str] = (), *, is_awaited: bool = True
) -> Iterator[DeployedScheduler]:
    """Run ``hostler kube schedule`` until the block ends; it has started when its log says that it schedules."""
    log = folder / f"scheduler-{len(list(folder.glob('scheduler-*.log')))}.log"
    command = [*HOSTLER, "kube", "schedule", "--kubeconfig", str(kubeconfig), *words]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, preexec_fn=_die_with_us)
    running = DeployedScheduler(process, log)
    try:
        if is_awaited:
            wait_until(lambda: process.poll() is not None or " scheduling nodes=" in running.log)
            assert process.poll() is None, running.log
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def rendered(folder: Path, kubectl: Kubectl) -> list[dict[str, Any]]:
    """Return the objects of a kustomization."""
    return list(yaml.safe_load_all(kubectl("kustomize", str(folder))))


def one(objects: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the only object of a kind."""
    (found,) = [item for item in objects if item["kind"] == kind]
    return found


def pod(name: str, cpu: str = "100m", *, scheduler: str = "hostler-scheduler", **spec: Any) -> dict[str, Any]:
    """Write a pod."""
    container = {"name": "main", "image": "registry.example/none:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "labels": spec.pop("labels", {}), "annotations": spec.pop("annotations", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "namespace": spec.pop("namespace", "default")},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def whole_cluster(folder: Path, name: str, **options: Any) -> LocalCluster:
    """Start a cluster with controllers and kwok, which ends with this process."""
    os.environ.pop("KUBECONFIG", None)
    return LocalCluster.start(name, folder, parts=("controllers", "kwok"), dies_with_us=True, **options)


def _die_with_us() -> None:
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
