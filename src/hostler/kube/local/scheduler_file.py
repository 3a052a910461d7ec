"""A KubeSchedulerConfiguration made to fit a local cluster: what it says, with our kubeconfig and no election."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hostler.config import write_yaml
from hostler.errors import InputError

__all__ = ["scheduler_file"]


def scheduler_file(config: Path | Mapping[str, object], kubeconfig: Path) -> bytes:
    """Return the file; with ``--config`` kube-scheduler reads neither its flag for the kubeconfig nor for elections."""
    content: dict[str, Any] = _read(config) if isinstance(config, Path) else dict(config)
    content.setdefault("apiVersion", "kubescheduler.config.k8s.io/v1")
    content.setdefault("kind", "KubeSchedulerConfiguration")
    content["clientConnection"] = {**(content.get("clientConnection") or {}), "kubeconfig": str(kubeconfig)}
    content["leaderElection"] = {"leaderElect": False}
    return write_yaml(content).encode()


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read: {reason}", hint="give a KubeSchedulerConfiguration") from None
    if (
        not isinstance(content, dict)
        or content.get("kind", "KubeSchedulerConfiguration") != "KubeSchedulerConfiguration"
    ):
        raise InputError(f"{path}: is no KubeSchedulerConfiguration", hint="it has 'kind: KubeSchedulerConfiguration'")
    return content
