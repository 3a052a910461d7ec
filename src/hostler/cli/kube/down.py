"""``hostler kube down``: the end of local control planes."""

from __future__ import annotations

import click

from hostler.cli.kube.cluster_options import cluster_option
from hostler.cli.options import examples
from hostler.cli.terminal import say
from hostler.errors import InputError

__all__ = ["down"]


@click.command(
    epilog=examples("hostler kube down", "hostler kube down --name second --keep-data", "hostler kube down --all"),
    short_help="End a local control plane and remove its data.",
)
@cluster_option("The cluster; the only one, or 'local', unless given.", default=None)
@click.option("--all", "is_all", is_flag=True, help="All local clusters.")
@click.option("--keep-data", is_flag=True, help="Keep the objects; 'hostler kube up' goes on with them.")
def down(name: str | None, is_all: bool, keep_data: bool) -> None:
    """End a local control plane: all of its processes, and its data."""
    from hostler.cli.kube.extras import needs_kube

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
