"""``hostler events``: what happened in a whole control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.connecting import There, complete_project, connects_fleet_wide
from hostler.cli.control.showing import Field, output, show_list
from hostler.cli.control.vm_explain import EVENT_FIELDS, write_event
from hostler.cli.options import examples

if TYPE_CHECKING:
    from hostler.control.api.shapes import Event

__all__ = ["events"]

_FIELDS = [
    *EVENT_FIELDS[:2],
    Field("PROJECT", lambda event: event.project),
    Field("ABOUT", lambda event: event.about),
    *EVENT_FIELDS[2:],
]


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
            _write(event, output)
        for event in client.follow(project=in_project, after=past[-1].seq if past else 0):
            _write(event, output)


def _write(event: Event, output: str) -> None:
    """Write an event of a list that goes on; among those of others it says what it is about."""
    is_plain = output not in ("json", "yaml") and event.about not in event.text
    write_event(msgspec.structs.replace(event, text=f"{event.about}: {event.text}") if is_plain else event, output)
