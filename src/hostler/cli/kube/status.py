"""``hostler kube status``: which local control planes there are, and how they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hostler.cli.kube.cluster_options import cluster_option
from hostler.cli.options import examples, output_option
from hostler.cli.terminal import print_data, print_table, say

if TYPE_CHECKING:
    from hostler.kube.local.report import ClusterReport

__all__ = ["status"]

EXIT_NO = 1

_COLUMNS = [("CLUSTER", "left"), ("PART", "left"), ("VERSION", "left"), ("PID", "right"), ("PORT", "right")]
_COLUMNS += [("SINCE", "left"), ("STATE", "left")]


@click.command(
    epilog=examples("hostler kube status", "hostler kube status --name second -o json"),
    short_help="Show the local control planes and how they are.",
)
@cluster_option("One cluster; all of them unless given.", default=None)
@output_option("table", "json", "yaml")
def status(name: str | None, output: str) -> int:
    """Show local control planes: their parts, versions, processes and ports, and whether each part is well.

    The exit code is 1 where a part is not well.
    """
    from hostler.cli.kube.extras import needs_kube

    with needs_kube():
        from hostler.kube.local import LocalCluster
    from hostler.kube.local.report import report_on
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
