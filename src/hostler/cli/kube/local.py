"""``hostler kube up``, ``status``, ``logs``, ``down`` and ``binaries``: real control planes on this machine.

``hostler.kube.local`` does the work. Its dependencies are imported when a command runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.kube.options import cluster_option, needs_kube, tell
from hostler.cli.options import FILE, examples, output_option
from hostler.cli.output.terminal import print_data, print_table, printable, say
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.kube.local import LocalCluster
    from hostler.kube.local.inspection import ClusterReport

__all__ = ["binaries", "down", "logs", "status", "up"]

MAX_NODES = 100_000
NO_PART = "none"


@click.command(
    epilog=examples(
        "hostler kube up",
        "hostler kube up --nodes 5 --with controllers,kwok",
        "hostler kube up --name second --with none",
    ),
    short_help="Start a local control plane or its missing parts.",
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
    help="Parts beside etcd and the API server, separated by commas: scheduler (kube-scheduler), controllers, "
    "kwok (plays the kubelets), or none; what the cluster has already stays. Else that, and all three where it is new.",
)
@click.option(
    "--gate",
    "gates",
    metavar="NAME=BOOL",
    multiple=True,
    help="Enable or disable a Kubernetes feature gate, for example --gate DynamicResourceAllocation=false.",
)
@click.option("--gangs-api/--no-gangs-api", default=None, help="Serve the built-in API for gangs; on since 1.37.")
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
    """Start a control plane on this machine, without containers: etcd, an API server, and optional parts.

    Programs that are missing are built once, which takes minutes; after that a cluster starts in seconds. If the
    cluster runs already, the command starts missing parts.
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
    with needs_kube():
        from hostler.kube.local import LocalCluster
    from hostler.kube.local.state import OPTIONAL, check_name, check_parts, cluster_folder, read_state

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


EXIT_NO = 1

_COLUMNS = [("CLUSTER", "left"), ("PART", "left"), ("VERSION", "left"), ("PID", "right"), ("PORT", "right")]
_COLUMNS += [("SINCE", "left"), ("STATE", "left")]


@click.command(
    epilog=examples("hostler kube status", "hostler kube status --name second -o json"),
    short_help="Show local control planes and their health.",
)
@cluster_option("Show only this cluster.", default=None)
@output_option("table", "json", "yaml")
def status(name: str | None, output: str) -> int:
    """Show local control planes: their parts, versions, processes and ports, and whether each part is healthy.

    The exit code is 1 if a part is not healthy.
    """
    with needs_kube():
        from hostler.kube.local import LocalCluster
    from hostler.kube.local.inspection import report_on
    from hostler.kube.local.state import known_clusters

    names = known_clusters() if name is None else [name]
    reports = [report_on(LocalCluster.open(one)) for one in names]
    if output != "table":
        print_data({"clusters": reports}, output)
    elif reports:
        _show(reports)
    else:
        say("there is no local cluster; start one with 'hostler kube up'")
    return 0 if all(report.is_healthy for report in reports) else EXIT_NO


def _show(reports: list[ClusterReport]) -> None:
    rows = []
    for report in reports:
        for part in report.parts:
            pid = str(part.pid) if part.pid is not None else "-"
            rows.append([report.name, part.part, part.version, pid, str(part.port), part.since or "-", part.state])
    print_table(_COLUMNS, rows)
    for report in reports:
        say(f"{report.name}: {report.url}, kubeconfig {report.kubeconfig}")


_TICK_S = 0.2


@click.command(
    epilog=examples("hostler kube logs", "hostler kube logs apiserver -f", "hostler kube logs scheduler --tail 100"),
    short_help="Show the logs of a local control plane.",
)
@click.argument("part", required=False)
@cluster_option("The cluster.  [default: the only one, or 'local']", default=None)
@click.option("-f", "--follow", is_flag=True, help="Continue with new lines until interrupted.")
@click.option(
    "--tail", metavar="N", type=click.IntRange(0), default=20, show_default=True, help="Number of lines per part."
)
def logs(part: str | None, name: str | None, follow: bool, tail: int) -> None:
    """Show the last lines of PART: etcd, apiserver, controllers, scheduler or kwok. Default: all parts."""
    with needs_kube():
        from hostler.kube.local import LocalCluster
    from hostler.config import did_you_mean
    from hostler.errors import UnknownNameError
    from hostler.kube.local.inspection import LogReader
    from hostler.kube.local.state import PARTS, the_cluster

    cluster = LocalCluster.open(name or the_cluster())
    if part is not None and part not in PARTS:
        raise UnknownNameError(f"no part is named {part!r}", hint=did_you_mean(part, PARTS))
    if part is not None and part not in cluster.parts:
        raise UnknownNameError(
            f"cluster {cluster.name} has no {part}, only {', '.join(cluster.parts)}",
            hint=f"start it with 'hostler kube up --name {cluster.name} --with {part}'",
        )
    wanted = [part] if part else [one for one in PARTS if cluster.log(one).exists()]
    readers = [(LogReader(cluster.log(one)), f"{one}: " if part is None else "") for one in wanted]
    for reader, label in readers:
        _write(label, reader.last(tail))
    while follow:
        for reader, label in readers:
            _write(label, reader.news())
        time.sleep(_TICK_S)


def _write(label: str, lines: Iterable[str]) -> None:
    for line in lines:
        say(label + printable(line))


@click.command(
    epilog=examples("hostler kube down", "hostler kube down --name second --keep-data", "hostler kube down --all"),
    short_help="Stop a local control plane and delete its data.",
)
@cluster_option("The cluster.  [default: the only one, or 'local']", default=None)
@click.option("--all", "is_all", is_flag=True, help="All local clusters.")
@click.option("--keep-data", is_flag=True, help="Keep the objects; 'hostler kube up' continues with them.")
def down(name: str | None, is_all: bool, keep_data: bool) -> None:
    """Stop a local control plane: all of its processes. Its data is deleted."""
    with needs_kube():
        from hostler.kube.local import LocalCluster
    from hostler.kube.local.state import known_clusters, the_cluster

    if is_all and name is not None:
        raise InputError("--all and --name exclude each other", hint="leave one of them out")
    names = known_clusters() if is_all else [name or the_cluster()]
    for one in names:
        ended = LocalCluster.open(one).stop(keep_data=keep_data)
        what = f"ended {', '.join(ended)}" if ended else "nothing was running"
        say(f"cluster {one}: {what}; its data are {'kept' if keep_data else 'removed'}")
    if not names:
        say("there is no local cluster")


@click.command(
    epilog=examples(
        "hostler kube binaries", "hostler kube binaries etcd kube-apiserver -o json", "hostler kube binaries e2e.test"
    ),
    short_help="Find or build the programs of control planes.",
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@output_option("table", "json", "yaml")
def binaries(names: tuple[str, ...], output: str) -> None:
    """Find the programs of a control plane in KUBEBUILDER_ASSETS and on PATH, and build missing ones.

    They are built from pinned Go modules into the user's cache folder, once, which takes minutes. Kubernetes' own
    end-to-end tests are not part of a control plane: name e2e.test to build them.
    """
    from hostler.config import did_you_mean
    from hostler.errors import UnknownNameError
    from hostler.kube.local.binaries import find_binaries
    from hostler.kube.local.build import BINARIES, TESTS

    known = (*BINARIES, TESTS)
    for name in names:
        if name not in known:
            raise UnknownNameError(f"no program is named {name!r}", hint=did_you_mean(name, known))
    found = find_binaries(names or BINARIES, tell).values()
    rows = [[one.name, one.version_text, one.origin, str(one.path)] for one in found]
    if output != "table":
        keys = ("name", "version", "origin", "path")
        print_data([dict(zip(keys, row, strict=True)) for row in rows], output)
        return
    print_table([("PROGRAM", "left"), ("VERSION", "left"), ("FROM", "left"), ("PATH", "left")], rows)
