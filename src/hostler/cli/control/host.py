"""``hostler host``: the hypervisor hosts of a control plane."""

from __future__ import annotations

import click

from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples

__all__ = ["COMMANDS", "host"]

_SHOW, _CHANGE = "hostler.cli.control.host_show", "hostler.cli.control.host_change"
_CREDENTIALS = "hostler.cli.control.host_credentials"

COMMANDS: Table = {
    "list": (_SHOW, "list_", "List the hosts."),
    "get": (_SHOW, "get", "Show one host."),
    "scheduling": (_SHOW, "scheduling", "Show what a scheduler looks at of a host."),
    "events": ("hostler.cli.control.host_events", "events", "Show what happened to a host."),
    "cordon": (_CHANGE, "cordon", "Let hosts take nothing new."),
    "uncordon": (_CHANGE, "uncordon", "Let hosts take VMs again."),
    "drain": ("hostler.cli.control.host_drain", "drain", "Move VMs away from hosts."),
    "undrain": (_CHANGE, "undrain", "End the draining of hosts."),
    "label": (_CHANGE, "label", "Set labels of a host, or take them away."),
    "edit": ("hostler.cli.control.host_edit", "edit", "Change how much of a host VMs may have."),
    "force-offline": (_CHANGE, "force_offline", "Treat a host as offline until its agent registers."),
    "confirm-dead": (_CHANGE, "confirm_dead", "Give your word that nothing runs on a host any more."),
    "allow-teardown": (_CHANGE, "allow_teardown", "Let a host tear down many VMs at once."),
    "rotate": (_CREDENTIALS, "rotate", "Give the agents of hosts a new credential."),
    "revoke": (_CREDENTIALS, "revoke", "Lock the agents of hosts out."),
    "delete": (_CHANGE, "delete", "Forget a host."),
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
