"""``hostler sim``: the simulator's commands, one file each."""

from __future__ import annotations

import click

from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples

__all__ = ["COMMANDS", "sim"]

COMMANDS: Table = {
    "run": ("hostler.cli.sim.run", "run", "Run one experiment or scenario."),
    "compare": ("hostler.cli.sim.compare", "compare", "Compare policies on the same arrivals."),
    "sweep": ("hostler.cli.sim.sweep", "sweep", "Run every combination of a grid, and keep the results."),
    "report": ("hostler.cli.sim.report", "report", "Make one HTML file of results."),
    "scorer": ("hostler.cli.sim.scorer", "scorer", "Score hosts by a network, in process or over HTTP."),
    "bound": ("hostler.cli.sim.bound", "bound", "Compute the most that any scheduler could allocate."),
    "trace": ("hostler.cli.sim.trace", "trace", "Describe and convert traces of guests that come and go."),
    "apply": ("hostler.cli.sim.apply", "apply", "Run the configuration files of simon apply."),
    "topology": ("hostler.cli.sim.topology", "topology", "Label the nodes of a folder with racks and servers."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=examples(
        "hostler sim run openb --policy fgd", "hostler sim run openb --workload gpuspec33 --seed 43 -o json"
    ),
    short_help="Simulate traces and scenarios, and compare policies on them.",
)
def sim() -> None:
    """Simulate traces and scenarios, and compare policies on them."""
