"""``hostler vm explain`` and ``events``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.cli.control.connecting import There, connects
from hostler.cli.control.showing import Field, output, show_list
from hostler.cli.control.vm_fields import complete_vm
from hostler.cli.options import examples
from hostler.cli.terminal import print_data, print_data_line, printable, say

if TYPE_CHECKING:
    from hostler.cli.explaining import Explained
    from hostler.control.api.shapes import Event, Vm
    from hostler.control.client import Client

__all__ = ["EVENT_FIELDS", "events", "explain", "write_event"]

EVENT_FIELDS: list[Field[Event]] = [
    Field("SEQ", lambda event: event.seq, "right"),
    Field("TIME", lambda event: event.at),
    Field("KIND", lambda event: event.kind),
    Field("BY", lambda event: event.by),
    Field("REQUEST", lambda event: event.request_id, is_wide=True),
    Field("WHAT", lambda event: event.text),  # the last: one long text must not push all others out of sight
]


@click.command(
    epilog=examples(
        "hostler vm explain web-0", "hostler vm explain team-a/db -o wide", "hostler vm explain db -o json"
    ),
    short_help="Say why a VM is where it is, or nowhere.",
)
@click.argument("vm", metavar="VM", shell_complete=complete_vm)
@connects
@output
def explain(there: There, vm: str, output: str) -> None:
    """Say why a VM is where it is or nowhere, what else would fit, and what would cure it.

    The hosts' verdicts are of this moment, and a VM that runs is looked at as if its own room were free. A stopped one
    is explained as if it were started now. The words, and the object of -o json, are those of 'hostler explain'.
    """
    with there.open() as client:
        found = client.vms.find(vm, client.reach.project)
        data = _decision(client, found)
    if output in ("json", "yaml"):
        print_data(data, output)
        return
    from hostler.cli.kernels import kernels

    with kernels():  # before what imports the engine
        from hostler.cli.explain import show_explained

        show_explained(_explained(found, data), output)


@click.command(
    epilog=examples("hostler vm events web-0", "hostler vm events web-0 --follow"),
    short_help="Show what happened to a VM.",
)
@click.argument("vm", metavar="VM", shell_complete=complete_vm)
@click.option("--follow", is_flag=True, help="Go on with what happens, until interrupted.")
@connects
@output
def events(there: There, vm: str, follow: bool, output: str) -> None:
    """Show what happened to a VM: who asked for what, and what was decided.

    The order is that of the log (SEQ), and times follow it.
    """
    with there.open() as client:
        found = client.vms.find(vm, client.reach.project)
        past = list(client.vms.events(found.id))
        if not follow:
            show_list(past, EVENT_FIELDS, output, nothing=f"nothing is known of {found.project}/{found.name} any more")
            return
        for event in past:
            write_event(event, output)
        last = past[-1].seq if past else 0
        for event in client.follow(project=found.project, subject=found.id, after=last):
            write_event(event, output)


def _decision(client: Client, vm: Vm) -> dict[str, Any]:
    """Return why a VM is where it is. Of one that is there, but not decided, there will be more to say soon."""
    from hostler.control.client.errors import StillUnderWayError, UnknownThereError

    try:
        return client.vms.decision(vm.id)
    except UnknownThereError:
        if vm.power == "absent":
            hint = f"'hostler vm get {vm.project}/{vm.name}' shows how far it is"
            raise StillUnderWayError(f"{vm.project}/{vm.name} is being deleted", hint=hint) from None
        hint = "try again in a moment"
        raise StillUnderWayError(f"{vm.project}/{vm.name} is not decided yet", hint=hint) from None


def write_event(event: Event, form: str) -> None:
    """Write an event of a list that goes on."""
    if form in ("json", "yaml"):
        print_data_line(event)
    else:
        say(printable(f"{event.at}  {event.kind:<12}  {event.text}{f'  by {event.by}' if event.by else ''}"))


def _explained(vm: Vm, data: dict[str, Any]) -> Explained:
    """Return what the other command would have found out by itself."""
    from hostler.cli.explaining import Explained
    from hostler.control.vms.guests import guest_spec
    from hostler.control.vms.spec import size_of
    from hostler.model import Explanation, Guest

    data = {**data, "decision": {**data["decision"], "host": data["decision"].get("host") or ""}}
    explanation = msgspec.convert(data, Explanation)
    decision = explanation.decision
    guest = Guest(
        name=vm.name,
        uid=decision.uid,
        spec=guest_spec(vm.spec, vm.project, size_of(vm.spec)),
        host=decision.host,
        gang=f"{vm.project}/{vm.spec.gang}" if vm.spec.gang else "",
    )
    return Explained(
        guest=guest,
        explanation=explanation,
        was_bound=bool(decision.host),
        owner="project",
        now="" if data.get("state") == "running" else data.get("now", ""),
        hint=data.get("hint", ""),
        made_way=data.get("made_way", ""),
        if_started=data.get("if_started", False),
    )
