"""``hostler events``: what happened in a whole control plane."""

from __future__ import annotations

import click

from hostler.cli.control.connecting import There, complete_project, connects_fleet_wide
from hostler.cli.control.showing import Field, output, show_list
from hostler.cli.control.vm_explain import EVENT_FIELDS, write_event
from hostler.cli.options import examples

__all__ = ["events"]

_FIELDS = [*EVENT_FIELDS[:2], Field("PROJECT", lambda event: event.project), *EVENT_FIELDS[2:]]


@click.command(
    epilog=examples("hostler events", "hostler events --in-project team-a --follow", "hostler events -o json"),
    short_help="Show what happened in a control plane, and what happens.",
)
@click.option("--in-project", metavar="NAME", default="", shell_complete=complete_project, help="Only of this project.")
@click.option("--follow", is_flag=True, help="Go on with what happens, until interrupted.")
@connects_fleet_wide
@output
def events(there: There, in_project: str, follow: bool, output: str) -> None:
    """Show what happened to hosts, VMs and all else that the key may know of, as far back as the log goes.

    The order is that of the log (SEQ), and times follow it. 'hostler vm events' is about one VM, 'hostler host events'
    about one host.
    """
    with there.open() as client:
        if in_project:
            client.check_project(in_project)
        past = list(client.events(project=in_project))
        if not follow:
            show_list(past, _FIELDS, output, nothing="nothing has happened yet")
            return
        for event in past:
            write_event(event, output)
        for event in client.follow(project=in_project, after=past[-1].seq if past else 0):
            write_event(event, output)
