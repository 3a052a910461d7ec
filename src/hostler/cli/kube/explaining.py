"""What ``hostler explain`` does on a live cluster: the same as with files, on what is listed there."""

from __future__ import annotations

from pathlib import Path

from hostler.cli.explaining import Explained, explain_from_files
from hostler.cli.kernels import Kernels
from hostler.cli.kube.viewing import inputs_of, live_settings, see, view_pod

__all__ = ["explain_live"]


def explain_live(
    kernels: Kernels,
    wanted: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    *,
    config: str = "",
    policy: str = "",
) -> Explained:
    """Explain a pod as the cluster is now; whom its policy would evict is told, and nobody is."""
    settings = live_settings(config, policy)
    seen = see(kubeconfig, context)
    view, uid = view_pod(seen, settings, wanted, namespace)
    inputs = inputs_of(view, settings)
    return explain_from_files(inputs, kernels, uid, inputs.policies, seed=settings.seed)
