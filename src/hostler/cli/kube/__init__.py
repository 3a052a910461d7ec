"""``hostler kube``: commands for Kubernetes, one file each."""

from __future__ import annotations

import click

from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples

__all__ = ["COMMANDS", "kube"]

COMMANDS: Table = {
    "schedule": ("hostler.cli.kube.schedule", "schedule", "Place the pods of a live cluster."),
    "plan": ("hostler.cli.kube.plan", "plan", "Say where pods would go, and who would be evicted for them."),
    "candidates": ("hostler.cli.kube.candidates", "candidates", "Show which nodes would take a pod, and why not."),
    "queue": ("hostler.cli.kube.queue", "queue", "Show the pods that wait, and why."),
    "capacity": ("hostler.cli.kube.capacity", "capacity", "Count how many more of a pod fit."),
    "extender": (
        "hostler.cli.kube.extender",
        "extender",
        "Place by a policy of ours under an unmodified kube-scheduler.",
    ),
    "up": ("hostler.cli.kube.up", "up", "Start a local control plane, or what is missing of it."),
    "status": ("hostler.cli.kube.status", "status", "Show the local control planes and how they are."),
    "logs": ("hostler.cli.kube.logs", "logs", "Show what the parts of a local control plane write."),
    "down": ("hostler.cli.kube.down", "down", "End a local control plane and remove its data."),
    "load": ("hostler.cli.kube.load", "load", "Create nodes, pods, gangs and churn for experiments."),
    "binaries": ("hostler.cli.kube.binaries", "binaries", "Find or build the programs of control planes."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=examples(
        "hostler kube up --nodes 5",
        "hostler kube schedule --kubeconfig FILE",
        "hostler kube plan -f pods.yaml",
        "hostler kube queue",
        "hostler kube down",
    ),
    short_help="Schedule pods on Kubernetes, and run local control planes.",
)
def kube() -> None:
    """Schedule pods on Kubernetes, and run local control planes."""
