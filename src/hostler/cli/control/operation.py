"""``hostler operation``: changes under way, and those that are over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from hostler.cli.control.asking import seconds_of
from hostler.cli.control.connecting import There, connects, connects_fleet_wide
from hostler.cli.control.hints import none_yet
from hostler.cli.control.listing import listed
from hostler.cli.control.progress_line import Progress, progress_line, said_when_interrupted
from hostler.cli.control.showing import Field, age, output, show_list, show_one
from hostler.cli.control.waiting import WAIT_S, WatchedVm, operation_failure, watch_operation, what_goes_on
from hostler.cli.options import examples

if TYPE_CHECKING:
    from hostler.control.api.shapes import Operation, Vm
    from hostler.control.client import Client

__all__ = ["operation"]

_FEW = 20  # VMs that are asked for one by one; more are found in the lists of their projects


def _fields(client: Client, operations: Sequence[Operation], form: str) -> list[Field[Operation]]:
    """Return the columns; a VM is called by its name as long as it is there, and by its id after that."""
    names = _names(client, operations) if form in ("table", "wide") else {}
    return [
        Field("ID", lambda one: one.id),
        Field("KIND", lambda one: one.kind),
        Field("STATE", lambda one: one.state),
        Field("SUBJECT", lambda one: names.get(one.subject, one.subject)),
        Field("AGE", lambda one: age(one.created_at), "right"),
        Field("ERROR", lambda one: one.error),
        Field("PROJECT", lambda one: one.project, is_wide=True),
        Field("SUBJECT ID", lambda one: one.subject, is_wide=True),
        Field("BY", lambda one: one.actor, is_wide=True),
        Field("FINISHED", lambda one: one.finished_at, is_wide=True),
    ]


def _names(client: Client, operations: Sequence[Operation]) -> dict[str, str]:
    """Return the names of the VMs that operations are about, by their ids."""
    from hostler.control.client.errors import NotAllowedError, UnknownThereError

    about = {one.subject: one.project for one in operations if one.kind.startswith("vm.")}
    found: list[Vm] = []
    with suppress(NotAllowedError):  # a key may be for operations alone
        if len(about) > _FEW:
            for project in sorted(set(about.values())):
                found += client.vms.list(project=project)
        else:
            for identity in about:
                with suppress(UnknownThereError):
                    found.append(client.vms.get(identity))
    return {vm.id: f"{vm.project}/{vm.name}" for vm in found}


@click.group(
    epilog=examples("hostler operation list --state pending", "hostler operation wait ID --seconds 60"),
    short_help="List changes under way, and wait for them.",
)
def operation() -> None:
    """List changes under way or over, and wait for them."""


@operation.command("list", epilog=examples("hostler operation list --state failed"), short_help="List operations.")
@click.option("-A", "--all-projects", is_flag=True, help="Of all projects that the key opens.")
@click.option("--state", type=click.Choice(["pending", "done", "failed"]), default=None, help="Only those that are so.")
@click.option("--vm", metavar="VM", default="", help="Only those about this VM.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=None, help="At most so many.")
@connects
@output
def list_(there: There, all_projects: bool, state: str | None, vm: str, limit: int | None, output: str) -> None:
    """List operations, newest first."""
    with there.open() as client:
        subject = client.vms.find(vm, client.reach.project).id if vm else ""
        project = "" if all_projects else client.reach.project
        some = client.operations(project=project, state=state or "", subject=subject, limit=limit or 0)
        found = listed(client, project, some)
        all_of = none_yet(project, "operations", "each change of a VM is one")
        nothing = "there are no such operations" if state or vm else all_of
        show_list(found, _fields(client, found, output), output, nothing=nothing)


@operation.command(epilog=examples("hostler operation get ID"), short_help="Show one operation.")
@click.argument("identity", metavar="ID")
@connects_fleet_wide
@output
def get(there: There, identity: str, output: str) -> None:
    """Show an operation."""
    with there.open() as client:
        found = client.operation(identity)
        show_one(found, _fields(client, [found], output), output)


@operation.command(
    epilog=examples("hostler operation wait ID", "hostler operation wait ID --seconds 5m"),
    short_help="Wait until an operation has ended.",
)
@click.argument("identity", metavar="ID")
@click.option("--seconds", metavar="SECONDS", default=str(WAIT_S), show_default=True, help="For how long, such as 5m.")
@connects_fleet_wide
@output
def wait(there: There, identity: str, seconds: str, output: str) -> None:
    """Wait until an operation has ended. The exit code is 1 when it failed, and 3 when it still goes on."""
    until = time.monotonic() + seconds_of("--seconds", seconds)
    watched: WatchedVm | None = None

    def vm() -> Vm | None:
        return watched.vm if watched is not None else None

    with there.open() as client:
        found = client.operation(identity)
        with said_when_interrupted(lambda: what_goes_on(found, vm())), progress_line() as progress:
            watched = _subject(client, found, progress)
            look = watched.look if watched is not None else lambda: progress.show(f"{found.kind}: {found.state}")
            found = watch_operation(client, found, until, look)
        fields = _fields(client, [found], output)
    show_one(found, fields, output)
    if (error := operation_failure(found, vm())) is not None:
        raise error


def _subject(client: Client, operation: Operation, progress: Progress) -> WatchedVm | None:
    """Return the VM that an operation is about; None where it is gone, or not for this key."""
    from hostler.control.client.errors import NotAllowedError, UnknownThereError

    if not operation.kind.startswith("vm."):
        return None
    with suppress(NotAllowedError, UnknownThereError):
        return WatchedVm(client, client.vms.get(operation.subject), progress)
    return None
