"""``hostler vm migrate`` and ``delete``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hostler.cli.control.asking import confirm, yes_option
from hostler.cli.control.changing import change_each, change_vms, find_all, show_changes
from hostler.cli.control.connecting import There, complete_host, connects
from hostler.cli.control.showing import shape_output
from hostler.cli.control.vm_fields import complete_vm
from hostler.cli.control.waiting import WaitingCommand, follow, wait_option
from hostler.cli.options import examples
from hostler.cli.wording import plural
from hostler.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from hostler.control.api.shapes import Vm, VmChanged
    from hostler.control.client import Client

__all__ = ["delete", "migrate"]

_SHOWN = 5  # names in a question


@click.command(
    cls=WaitingCommand,
    epilog=examples(
        "hostler vm migrate web-0 --wait", "hostler vm migrate web-0 --to node-7", "hostler vm migrate web-0 --cancel"
    ),
    short_help="Move a VM to another host.",
)
@click.argument("vm", metavar="VM", shell_complete=complete_vm)
@click.option(
    "--to",
    "host",
    metavar="HOST",
    default="",
    shell_complete=complete_host,
    help="The host; else the best that has room.",
)
@click.option("--cancel", is_flag=True, help="Call a move off that has not arrived yet.")
@wait_option("Wait until it has moved, or is to stay")
@connects
@shape_output
def migrate(there: There, vm: str, host: str, cancel: bool, wait_s: int | None, output: str) -> None:
    """Move a VM to another host, while it runs or as it is stopped, or call that off.

    It needs shared storage or no disk at all and, while it runs, hosts whose drivers can do it.
    """
    if cancel and host:
        raise InputError("a move is called off wherever it goes", hint="give --cancel or --to, not both")

    def change(client: Client, found: Vm) -> VmChanged:
        return client.vms.cancel_migration(found.id) if cancel else client.vms.migrate(found.id, host)

    change_vms(there, [vm], change, wait_s, output)


@click.command(
    cls=WaitingCommand,
    epilog=examples(
        "hostler vm delete web-0",
        "hostler vm delete web-0 web-1 team-a/db --yes --wait",
        "hostler vm delete -l tier=web",
    ),
    short_help="Delete VMs with their disks.",
)
@click.argument("vms", metavar="[VM]…", nargs=-1, shell_complete=complete_vm)
@click.option(
    "-l",
    "--label",
    "labels",
    metavar="KEY=VALUE",
    multiple=True,
    help="Instead of names: the VMs of the project that have this label; of several, those that have all.",
)
@yes_option()
@wait_option("Wait until nothing is left of it")
@connects
@shape_output
def delete(
    there: There, vms: tuple[str, ...], labels: tuple[str, ...], yes: bool, wait_s: int | None, output: str
) -> None:
    """Delete VMs with their disks, whatever state they are in; on a terminal you are asked first."""
    if bool(vms) == bool(labels):
        raise InputError("VMs are named, or chosen by a label", hint="give VM… or -l KEY=VALUE, not both and not none")
    with there.open() as client:
        found = find_all(client, vms) if vms else _labelled(client, labels)
        names = [f"{vm.project}/{vm.name}" for vm in found]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        confirm(f"Delete {plural(len(names), 'VM')} ({', '.join(names[:_SHOWN])}{more}) with all disks?", is_sure=yes)
        changes = follow(client, change_each(found, lambda vm: client.vms.delete(vm.id), output), wait_s)
    show_changes(changes, output, wait_s)


def _labelled(client: Client, labels: tuple[str, ...]) -> list[Vm]:
    """Return the VMs of the project that have some labels; UnknownNameError where there are none."""
    found = list(client.vms.list(project=client.reach.project, labels=labels))
    if not found:
        what = " and ".join(labels)
        hint = f"'hostler vm list -p {client.reach.project} -o wide' shows labels; -p names another project"
        raise UnknownNameError(f"no VM of project {client.reach.project} has the label {what}", hint=hint)
    return found
