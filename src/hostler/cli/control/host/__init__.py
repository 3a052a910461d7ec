"""``hostler host``: the hypervisor hosts of a control plane."""

from __future__ import annotations

import click

from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples

__all__ = ["COMMANDS", "host"]

_LISTS, _CHANGES = "hostler.cli.control.host.lists", "hostler.cli.control.host.changes"

COMMANDS: Table = {
    "list": (_LISTS, "list_", "List the hosts."),
    "get": (_LISTS, "get", "Show one host."),
    "scheduling": (_LISTS, "scheduling", "Show the view of a host for schedulers."),
    "events": ("hostler.cli.control.events", "host_events", "Show the events of a host."),
    "cordon": (_CHANGES, "cordon", "Keep new VMs off hosts."),
    "uncordon": (_CHANGES, "uncordon", "Allow new VMs on hosts again."),
    "drain": ("hostler.cli.control.host.changes", "drain", "Move VMs away from hosts."),
    "undrain": (_CHANGES, "undrain", "Stop draining hosts."),
    "label": (_CHANGES, "label", "Set or remove labels of a host."),
    "edit": (_CHANGES, "edit", "Change how much of a host VMs may use."),
    "force-offline": (_CHANGES, "force_offline", "Treat a host as offline until its agent registers."),
    "confirm-dead": (_CHANGES, "confirm_dead", "Confirm that nothing runs on a host any more."),
    "allow-teardown": (_CHANGES, "allow_teardown", "Allow a host to remove many VMs at once."),
    "rotate": (_CHANGES, "rotate", "Give the agents of hosts a new credential."),
    "revoke": (_CHANGES, "revoke", "Revoke the credentials of hosts' agents."),
    "delete": (_CHANGES, "delete", "Delete a host."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=examples(
        "hostler host list",
        "hostler host drain node-3 && hostler host get node-3",
        "hostler host label node-3 disk=ssd zone-",
        "(umask 077; hostler token create --host node-4 > token)",
    ),
    short_help="List, drain, label and remove the hosts of a control plane.",
)
def host() -> None:
    """List, drain, label and remove the hypervisor hosts of a control plane. A host is named by its name or its id."""
