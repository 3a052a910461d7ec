"""``hostler kube``: commands for Kubernetes, one file each."""

from __future__ import annotations

import click

from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples

__all__ = ["COMMANDS", "kube"]

COMMANDS: Table = {
    "schedule": ("hostler.cli.kube.schedule", "schedule", "Place the pods of a live cluster."),
    "plan": (
        "hostler.cli.kube.placement",
        "plan",
        "Show where pods would go, and which pods would be evicted for them.",
    ),
    "candidates": (
        "hostler.cli.kube.placement",
        "candidates",
        "Show which nodes would take a pod, and why others would not.",
    ),
    "queue": ("hostler.cli.kube.queue", "queue", "Show the pods that wait, and why."),
    "capacity": ("hostler.cli.kube.capacity", "capacity", "Count how many more of a pod fit."),
    "extender": (
        "hostler.cli.kube.extender",
        "extender",
        "Let an unmodified kube-scheduler place pods by a Hostler policy.",
    ),
    "up": ("hostler.cli.kube.local", "up", "Start a local control plane or its missing parts."),
    "status": ("hostler.cli.kube.local", "status", "Show local control planes and their health."),
    "logs": ("hostler.cli.kube.local", "logs", "Show the logs of a local control plane."),
    "down": ("hostler.cli.kube.local", "down", "Stop a local control plane and delete its data."),
    "demo": ("hostler.cli.kube.demo", "demo", "Show the scheduler on a local cluster, and remove it."),
    "load": ("hostler.cli.kube.load", "load", "Create nodes, pods, gangs and churn for experiments."),
    "binaries": ("hostler.cli.kube.local", "binaries", "Find or build the programs of control planes."),
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
