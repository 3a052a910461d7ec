"""``hostler sim topology``: rack and server labels for a folder of Kubernetes nodes."""

from __future__ import annotations

from pathlib import Path

import click

from hostler.cli.options import examples, output_option
from hostler.cli.output.terminal import note, print_data, print_table

__all__ = ["topology"]

_MOST_SERVERS = 1_000_000


@click.command(
    epilog=examples(
        "hostler sim topology --servers-per-rack 4",
        "hostler sim topology --data-dir data/cluster --servers-per-rack 16 --in-place",
    )
)
@click.option(
    "--data-dir",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("data"),
    show_default=True,
    help="Where the YAML files with nodes are; folders in it count too.",
)
@click.option(
    "--servers-per-rack",
    metavar="N",
    type=click.IntRange(1, _MOST_SERVERS),
    default=4,
    show_default=True,
    help="How many nodes, in the order of their file, share a rack.",
)
@click.option("--in-place", is_flag=True, help="Label the files themselves instead of copies.")
@output_option("table", "json", "yaml")
def topology(folder: Path, servers_per_rack: int, in_place: bool, output: str) -> None:
    """Label the nodes of a folder with racks and servers.

    Node i of a file gets the labels rack: rack-{i // N} and server: srv-{i % N}, unless it has them. NAME.yaml stays as
    it is, and NAME-hier.yaml is written beside it. Files with pods beside it get an unchanged copy of such a name. A
    second run changes nothing.
    """
    from hostler.cli.files import atomic_file
    from hostler.sim.topology import label_folder

    def write(path: Path, content: bytes) -> None:
        with atomic_file(str(path)) as put:
            put(content)

    done = label_folder(folder, servers_per_rack, write, in_place=in_place)
    if output != "table":
        print_data([{**one._asdict(), "source": str(one.source), "target": _name(one.target)} for one in done], output)
        return
    rows = [
        (
            str(one.source.relative_to(folder)),
            *map(str, (one.nodes, one.racks, one.changed, one.pods)),
            _written(one.target),
        )
        for one in done
    ]
    counts = [(name, "right") for name in ("NODES", "RACKS", "LABELLED", "PODS")]
    print_table([("FILE", "left"), *counts, ("WRITTEN", "left")], rows)
    if not in_place:
        note("use one of the two copies at a time: a tool that reads the whole folder would see every node twice")


def _name(path: Path | None) -> str | None:
    return str(path) if path is not None else None


def _written(path: Path | None) -> str:
    return path.name if path is not None else "up to date"
