"""``hostler vm``: virtual machines of a control plane."""

from __future__ import annotations

import click

from hostler.cli.lazy import LazyGroup, Table
from hostler.cli.options import examples

__all__ = ["COMMANDS", "vm"]

_HERE = "hostler.cli.control"

COMMANDS: Table = {
    "create": (f"{_HERE}.vm_create", "create", "Create VMs, by options or from a file."),
    "list": (f"{_HERE}.vm_list", "list_", "List VMs, or watch them."),
    "get": (f"{_HERE}.vm_list", "get", "Show one VM."),
    "start": (f"{_HERE}.vm_power", "start", "Start VMs."),
    "stop": (f"{_HERE}.vm_power", "stop", "Stop VMs; they keep disk and host."),
    "restart": (f"{_HERE}.vm_power", "restart", "Restart VMs."),
    "pause": (f"{_HERE}.vm_power", "pause", "Pause VMs; they keep all that they have."),
    "resume": (f"{_HERE}.vm_power", "resume", "Let paused VMs go on."),
    "resize": (f"{_HERE}.vm_resize", "resize", "Change size, place, labels or protection of a VM."),
    "migrate": (f"{_HERE}.vm_change", "migrate", "Move a VM to another host."),
    "delete": (f"{_HERE}.vm_change", "delete", "Delete VMs with their disks."),
    "explain": (f"{_HERE}.vm_explain", "explain", "Say why a VM is where it is, or nowhere."),
    "events": (f"{_HERE}.vm_explain", "events", "Show what happened to a VM."),
    "queue": (f"{_HERE}.vm_list", "queue", "Show the VMs that wait for a place, and why."),
    "plan": (f"{_HERE}.vm_plan", "plan", "Say where VMs would go, without creating them."),
    "candidates": (f"{_HERE}.vm_plan", "candidates", "Show which hosts would take a VM, and why not."),
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
