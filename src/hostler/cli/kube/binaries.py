"""``hostler kube binaries``: the programs of control planes, found or built."""

from __future__ import annotations

import click

from hostler.cli.kube.cluster_options import tell
from hostler.cli.options import examples, output_option
from hostler.cli.terminal import print_data, print_table

__all__ = ["binaries"]


@click.command(
    epilog=examples(
        "hostler kube binaries", "hostler kube binaries etcd kube-apiserver -o json", "hostler kube binaries e2e.test"
    ),
    short_help="Find or build the programs of control planes.",
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@output_option("table", "json", "yaml")
def binaries(names: tuple[str, ...], output: str) -> None:
    """Find the programs of a control plane in KUBEBUILDER_ASSETS and on PATH, and build those that are missing.

    They are built from pinned Go modules into the cache folder of the user, once, which takes minutes. Kubernetes' own
    end-to-end tests are no part of a control plane: they are built where they are asked for by their name, e2e.test.
    """
    from hostler.config import did_you_mean
    from hostler.errors import UnknownNameError
    from hostler.kube.local.binaries import find_binaries
    from hostler.kube.local.build import TESTS
    from hostler.kube.local.modules import BINARIES

    known = (*BINARIES, TESTS)
    for name in names:
        if name not in known:
            raise UnknownNameError(f"no program is called {name!r}", hint=did_you_mean(name, known))
    found = find_binaries(names or BINARIES, tell).values()
    rows = [[one.name, one.version_text, one.origin, str(one.path)] for one in found]
    if output != "table":
        keys = ("name", "version", "origin", "path")
        print_data([dict(zip(keys, row, strict=True)) for row in rows], output)
        return
    print_table([("PROGRAM", "left"), ("VERSION", "left"), ("FROM", "left"), ("PATH", "left")], rows)
