"""``hostler dev``: commands for trying things out on one machine."""

from __future__ import annotations

import click

from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples

__all__ = ["COMMANDS", "dev"]

COMMANDS: Table = {
    "up": ("hostler.cli.control.dev_up", "up", "Run a control plane with a fleet of fake hosts, and leave it running."),
    "fleet": ("hostler.cli.control.fleet", "fleet", "Run the agents of many fake hosts in one process."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=examples(
        "hostler dev up",
        "hostler dev fleet --server http://127.0.0.1:8470 --key-file admin.key --hosts 20",
    ),
    short_help="Try things out on one machine: a control plane, fleets of fake hosts.",
)
def dev() -> None:
    """Try things out on one machine: a control plane, fleets of fake hosts."""
