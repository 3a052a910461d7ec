"""``hostler vm start``, ``stop``, ``restart``, ``pause`` and ``resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hostler.cli.control.changing import change_vms
from hostler.cli.control.connecting import There, connects
from hostler.cli.control.showing import shape_output
from hostler.cli.control.vm_fields import complete_vm
from hostler.cli.control.waiting import WaitingCommand, wait_option
from hostler.cli.options import examples

if TYPE_CHECKING:
    from hostler.control.client.vms import Verb

__all__ = ["pause", "restart", "resume", "start", "stop"]


def _command(verb: Verb, summary: str, text: str) -> click.Command:
    """Make the command of one verb."""

    @click.command(
        verb,
        cls=WaitingCommand,
        help=text,
        epilog=examples(f"hostler vm {verb} web-0", f"hostler vm {verb} web-0 team-a/db --wait 60"),
        short_help=summary,
    )
    @click.argument("vms", metavar="VM…", nargs=-1, required=True, shell_complete=complete_vm)
    @wait_option()
    @connects
    @shape_output
    def run(there: There, vms: tuple[str, ...], wait_s: int | None, output: str) -> None:
        change_vms(there, vms, lambda client, vm: client.vms.act(vm.id, verb), wait_s, output)

    return run


@click.command(
    "start",
    cls=WaitingCommand,
    help="Start VMs.\n\nA stopped VM has kept its disk and host, not its cpu and memory: starting is a placement, "
    "and it may be pending where others have taken the room. A VM that is lost starts with new disks, but not while "
    "hosts are missing that may still have it.",
    epilog=examples(
        "hostler vm start web-0",
        "hostler vm start web-0 team-a/db --wait 60",
        "hostler vm start web-0 --force",
    ),
    short_help="Start VMs.",
)
@click.argument("vms", metavar="VM…", nargs=-1, required=True, shell_complete=complete_vm)
@click.option(
    "--force",
    "is_forced",
    is_flag=True,
    help="Start lost VMs although hosts are missing that may still have them; for admins of the fleet.",
)
@wait_option()
@connects
@shape_output
def start(there: There, vms: tuple[str, ...], is_forced: bool, wait_s: int | None, output: str) -> None:
    """Start VMs."""
    change_vms(there, vms, lambda client, vm: client.vms.start(vm.id, is_forced=is_forced), wait_s, output)


stop = _command(
    "stop",
    "Stop VMs; they keep disk and host.",
    "Stop VMs.\n\nA stopped VM keeps its disk and host, and gives its cpu and memory back unless it was created with "
    "--reserve.",
)
restart = _command("restart", "Restart VMs.", "Stop VMs and start them again, on the hosts where they are.")
pause = _command(
    "pause", "Pause VMs; they keep all that they have.", "Pause running VMs. They keep cpu, memory, disk and host."
)
resume = _command("resume", "Let paused VMs go on.", "Let paused VMs go on where they stopped.")
