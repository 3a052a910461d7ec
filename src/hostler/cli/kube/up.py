"""``hostler kube up``: a real control plane on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.kube.cluster_options import cluster_option, tell
from hostler.cli.options import FILE, examples
from hostler.cli.terminal import say
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.kube.local import LocalCluster

__all__ = ["up"]

MAX_NODES = 100_000
NO_PART = "none"


@click.command(
    epilog=examples(
        "hostler kube up",
        "hostler kube up --nodes 5 --with controllers,kwok",
        "hostler kube up --name second --with none",
    ),
    short_help="Start a local control plane, or what is missing of it.",
)
@cluster_option("The cluster; several can run side by side.")
@click.option(
    "--nodes",
    metavar="N",
    type=click.IntRange(0, MAX_NODES),
    default=0,
    help="Create nodes node-0 and so on, of 8 CPUs, 32 GiB and 110 pods, in three zones; those that exist stay.",
)
@click.option(
    "--with",
    "parts",
    metavar="PARTS",
    default=None,
    help="What runs beside etcd and the API server, separated by commas: scheduler (kube-scheduler), controllers, "
    "kwok (plays the kubelets), or none; what the cluster has already stays. Else that, and all three where it is new.",
)
@click.option(
    "--gate",
    "gates",
    metavar="NAME=BOOL",
    multiple=True,
    help="Open or close a feature gate of Kubernetes, for example --gate DynamicResourceAllocation=false.",
)
@click.option("--gangs-api/--no-gangs-api", default=None, help="Serve the built-in API for gangs; on from 1.37 on.")
@click.option(
    "--scheduler-config",
    metavar="FILE",
    type=FILE,
    default=None,
    help="A KubeSchedulerConfiguration for its scheduler.",
)
def up(
    name: str,
    nodes: int,
    parts: str | None,
    gates: tuple[str, ...],
    gangs_api: bool | None,
    scheduler_config: str | None,
) -> None:
    """Start a control plane on this machine, without containers: etcd, an API server, and what you want beside them.

    Programs that are not on this machine are built once, which takes minutes; then a cluster is up in seconds. On a
    cluster that runs, the command starts what is missing.
    """
    cluster = _start(name, nodes, parts, gates, gangs_api, scheduler_config)
    for line in _next_steps(cluster):
        say(line)


def _start(
    name: str,
    nodes: int,
    parts: str | None,
    gates: tuple[str, ...],
    gangs_api: bool | None,
    scheduler_config: str | None,
) -> LocalCluster:
    from hostler.cli.kube.extras import needs_kube

    with needs_kube():
        from hostler.kube.local import LocalCluster
    from hostler.kube.local.parts import OPTIONAL, check_parts
    from hostler.kube.local.state import check_name, cluster_folder, read_state

    check_name(name)
    before = read_state(cluster_folder(name))
    wanted = check_parts(_words(parts)) if parts is not None else OPTIONAL if before is None else ()
    stay = [part for part in before.parts if part not in wanted] if before is not None and parts is not None else []
    if stay:
        tell(f"--with only adds parts: {', '.join(stay)} of cluster {name} {'stays' if len(stay) == 1 else 'stay'}")
    return LocalCluster.start(
        name,
        nodes=nodes,
        parts=wanted,
        feature_gates=dict(map(_gate, gates)) or None,
        gangs_api=gangs_api,
        scheduler_config=Path(scheduler_config) if scheduler_config else None,
        report=tell,
    )


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if NO_PART in words and len(words) > 1:
        raise InputError("'none' cannot stand beside parts", hint="leave it out, or give it alone")
    return [word for word in words if word != NO_PART]


def _gate(text: str) -> tuple[str, bool]:
    gate, sign, value = text.partition("=")
    if not gate.isalnum() or not sign or value not in ("true", "false"):
        raise InputError(
            f"{text!r} does not open or close a gate", hint="write NAME=true or NAME=false, with the name's capitals"
        )
    return gate, value == "true"


def _next_steps(cluster: LocalCluster) -> list[str]:
    from shlex import quote

    from hostler.kube.local.binaries import find_binaries

    kubectl = find_binaries(["kubectl"], tell)["kubectl"]
    admin = quote(str(cluster.kubeconfig()))
    name = "" if cluster.name == "local" else f" --name {cluster.name}"
    return [
        f"cluster {cluster.name} is up at {cluster.url}",
        f"kubeconfig: {cluster.kubeconfig()}",
        "",
        "next:",
        f"  export KUBECONFIG={admin}",
        f"  {'kubectl' if kubectl.origin == 'PATH' else quote(str(kubectl.path))} get nodes",
        f"  hostler kube schedule --kubeconfig {quote(str(cluster.kubeconfig('hostler')))}",
        f"  hostler kube down{name}",
    ]
