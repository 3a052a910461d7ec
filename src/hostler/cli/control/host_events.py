"""``hostler host events``: what happened to a host."""

from __future__ import annotations

import click

from hostler.cli.control.connecting import There, complete_host, connects_fleet_wide
from hostler.cli.control.showing import output, show_list
from hostler.cli.control.vm_explain import EVENT_FIELDS
from hostler.cli.options import examples

__all__ = ["events"]


@click.command(
    epilog=examples("hostler host events node-3", "hostler host events node-3 -o json"),
    short_help="Show what happened to a host.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@connects_fleet_wide
@output
def events(there: There, host: str, output: str) -> None:
    """Show what happened to a host: who asked for what, when it was heard again or not, and what was found there.

    The order is that of the log (SEQ), and times follow it. A host that was deleted is still known by its name, until
    another of that name joins; then by its id.
    """
    with there.open() as client:
        show_list(client.events(host=host), EVENT_FIELDS, output, nothing=f"nothing is known of {host} any more")
