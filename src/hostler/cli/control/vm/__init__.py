"""``hostler vm``: virtual machines of a control plane."""

from __future__ import annotations

import click

from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples

__all__ = ["COMMANDS", "vm"]

_LISTS, _CHANGES, _PLACEMENT = (f"hostler.cli.control.vm.{name}" for name in ("lists", "changes", "placement"))

COMMANDS: Table = {
    "create": ("hostler.cli.control.vm.create", "create", "Create VMs, by options or from a file."),
    "list": (_LISTS, "list_", "List VMs, or watch them."),
    "get": (_LISTS, "get", "Show one VM."),
    "start": (_CHANGES, "start", "Start VMs."),
    "stop": (_CHANGES, "stop", "Stop VMs; they keep disk and host."),
    "restart": (_CHANGES, "restart", "Restart VMs."),
    "pause": (_CHANGES, "pause", "Pause VMs; they keep all resources."),
    "resume": (_CHANGES, "resume", "Resume paused VMs."),
    "resize": (_CHANGES, "resize", "Change size, place, labels or protection of a VM."),
    "migrate": (_CHANGES, "migrate", "Move a VM to another host."),
    "delete": (_CHANGES, "delete", "Delete VMs with their disks."),
    "explain": (_PLACEMENT, "explain", "Explain why a VM is on its host, or on none."),
    "events": ("hostler.cli.control.events", "vm_events", "Show the events of a VM."),
    "queue": (_PLACEMENT, "queue", "Show the VMs that wait for a place, and why."),
    "plan": (_PLACEMENT, "plan", "Show where VMs would be placed, without creating them."),
    "candidates": (_PLACEMENT, "candidates", "Show which hosts would take a VM, and why not."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=examples(
        "hostler context set home --server http://127.0.0.1:8470 --key-file admin.key",
        "hostler vm create web-0 --cpu 2 --memory 4Gi --disk 20Gi --wait",
        "hostler vm list --state running",
        "hostler vm explain web-0",
        "hostler vm delete web-0",
    ),
    short_help="Create, list, move and explain VMs of a control plane.",
)
def vm() -> None:
    """Create, list, change, move and explain the VMs of a control plane.

    A VM is named by NAME (in the project of the context, or --project), PROJECT/NAME, or its id.
    """
