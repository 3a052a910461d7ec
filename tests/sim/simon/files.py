"""Small clusters and configurations for tests, as files that a user would have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hostler.config import write_yaml
from tests.cli.cli_in_process import Result, hostler

PREFIX = "alibabacloud.com/"
STOCK = (
    "ImageLocality", "NodeAffinity", "PodTopologySpread", "TaintToleration", "NodeResourcesBalancedAllocation",
    "InterPodAffinity", "NodeResourcesLeastAllocated", "NodePreferAvoidPods",
)  # fmt: skip
PUBLISHED = {"isInvolvedCpuPods": True, "podPopularityThreshold": 95, "podIncreaseStep": 1, "gpuResWeight": 0}


def node(name: str, *, cpu: int = 16, memory: str = "64Gi", gpus: int = 0, model: str = "T4", **labels: str) -> dict:
    """Describe a node."""
    size = {"cpu": str(cpu), "memory": memory, "pods": "1001"}
    if gpus:
        size |= {f"{PREFIX}gpu-count": str(gpus), f"{PREFIX}gpu-milli": str(1000 * gpus)}
        labels = {f"{PREFIX}gpu-card-model": model, **labels}
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": size, "capacity": size}}


def pod(name: str, *, cpu: str = "1", memory: str = "1Gi", gpus: int = 0, milli: int = 1000, **more: Any) -> dict:
    """Describe a pod; further words are annotations of the simulator's, without their prefix."""
    marks = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in more.pop("marks", {}).items()}
    if gpus:
        marks |= {f"{PREFIX}gpu-count": str(gpus), f"{PREFIX}gpu-milli": str(milli)}
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": marks},
        "spec": {"containers": [container], **more},
    }


def write(path: Path, *objects: dict) -> Path:
    """Write objects into one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("---\n".join(write_yaml(data) for data in objects))
    return path


def cluster_config(folder: Path, *, data: str = "data", spec: dict | None = None, **custom: Any) -> Path:
    """Write a cluster configuration."""
    parts = {"cluster": {"customConfig": str(folder / data)}, "customConfig": custom, **(spec or {})}
    content = {"apiVersion": "simon/v1alpha1", "kind": "Config", "metadata": {"name": "small"}, "spec": parts}
    return write(folder / "cluster.yaml", content)


def scheduler_config(folder: Path, *scores: tuple[str, int], gpu_sel: str = "best", **parts: Any) -> Path:
    """Write a scheduler configuration with these score plugins, and all stock ones off."""
    share = {"enabled": [{"name": "Open-Gpu-Share"}]}
    plugins = {
        "filter": share,
        "preScore": {"enabled": [{"name": name} for name in parts.pop("pre_score", ())]},
        "score": {
            "disabled": [{"name": name} for name in parts.pop("disabled", STOCK)],
            "enabled": [{"name": name, "weight": weight} for name, weight in scores],
        },
        "reserve": share,
        "bind": {"disabled": [{"name": "DefaultBinder"}], "enabled": [{"name": "Simon"}]},
    }
    arguments = [{"name": name, "args": args} for name, args in parts.pop("arguments", {}).items()]
    gpu = {"gpuSelMethod": gpu_sel, "dimExtMethod": "merge", "normMethod": "max"}
    profile = {
        "schedulerName": "simon-scheduler",
        "plugins": {**plugins, **parts.pop("plugins", {})},
        "pluginConfig": [*arguments, {"name": "Open-Gpu-Share", "args": gpu}],
    }
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [profile],
        **parts,
    }
    return write(folder / "scheduler.yaml", content)


def applied(cluster: Path, scheduler: Path, *words: str) -> Result:
    """Run ``sim apply``."""
    return hostler("sim", "apply", "-f", cluster, "-s", scheduler, "--extended-resources", "gpu", *words)


def warnings(result: Result) -> list[str]:
    """Return what was warned about."""
    return [line.removeprefix("warning: ") for line in result.err.splitlines() if line.startswith("warning: ")]
