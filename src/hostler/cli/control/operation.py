"""``hostler operation``: changes in progress, and finished ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from hostler.cli.control.connection import CommandTarget, fleet_target_options, target_options
from hostler.cli.control.options import seconds_of
from hostler.cli.control.output import Field, age, output, show_list, show_one
from hostler.cli.control.progress import (
    WAIT_S,
    Progress,
    WatchedVm,
    progress_line,
    report_if_interrupted,
    unfinished_text,
)
from hostler.cli.control.resource_commands import all_projects_option, list_in_project, nothing_yet
from hostler.cli.options import examples

if TYPE_CHECKING:
    from hostler.control.client import Client
    from hostler.control.schemas import Operation, Vm

__all__ = ["operation"]

_FEW = 20  # VMs that are asked for one by one; more are found in the lists of their projects


def _fields(client: Client, operations: Sequence[Operation], form: str) -> list[Field[Operation]]:
    """Return the columns. A VM is shown by its name while it exists, and by its id after that."""
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
    """Return the names of the VMs that operations concern, by their ids."""
    from hostler.control.client.errors import NotAllowedError, ServerNotFoundError

    about = {one.subject: one.project for one in operations if one.kind.startswith("vm.")}
    found: list[Vm] = []
    with suppress(NotAllowedError):  # a key may be for operations alone
        if len(about) > _FEW:
            for project in sorted(set(about.values())):
                found += client.vms.list(project=project)
        else:
            for identity in about:
                with suppress(ServerNotFoundError):
                    found.append(client.vms.get(identity))
    return {vm.id: f"{vm.project}/{vm.name}" for vm in found}


@click.group(
    epilog=examples("hostler operation list --state pending", "hostler operation wait ID --seconds 60"),
    short_help="List changes in progress, and wait for them.",
)
def operation() -> None:
    """List changes in progress or finished, and wait for them."""


@operation.command("list", epilog=examples("hostler operation list --state failed"), short_help="List operations.")
@all_projects_option
@click.option(
    "--state", type=click.Choice(["pending", "done", "failed"]), default=None, help="Only those in this state."
)
@click.option("--vm", metavar="VM", default="", help="Only those about this VM.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=None, help="At most this number.")
@target_options
@output
def list_(
    target: CommandTarget, all_projects: bool, state: str | None, vm: str, limit: int | None, output: str
) -> None:
    """List operations, newest first."""
    with target.open() as client:
        subject = client.vms.find(vm, client.target.project).id if vm else ""
        project = "" if all_projects else client.target.project
        some = client.operations(project=project, state=state or "", subject=subject, limit=limit or 0)
        found = list_in_project(client, project, some)
        all_of = nothing_yet(project, "operations", "each change of a VM is one")
        nothing = "there are no such operations" if state or vm else all_of
        show_list(found, _fields(client, found, output), output, nothing=nothing)


@operation.command(epilog=examples("hostler operation get ID"), short_help="Show one operation.")
@click.argument("identity", metavar="ID")
@fleet_target_options
@output
def get(target: CommandTarget, identity: str, output: str) -> None:
    """Show an operation."""
    with target.open() as client:
        found = client.operation(identity)
        show_one(found, _fields(client, [found], output), output)


@operation.command(
    epilog=examples("hostler operation wait ID", "hostler operation wait ID --seconds 5m"),
    short_help="Wait until an operation has ended.",
)
@click.argument("identity", metavar="ID")
@click.option("--seconds", metavar="SECONDS", default=str(WAIT_S), show_default=True, help="For how long, such as 5m.")
@fleet_target_options
@output
def wait(target: CommandTarget, identity: str, seconds: str, output: str) -> None:
    """Wait until an operation has ended. The exit code is 1 if it failed, and 3 if it is still in progress."""
    from hostler.control.client.operations import operation_failure, watch_operation

    until = time.monotonic() + seconds_of("--seconds", seconds)
    watched: WatchedVm | None = None

    def vm() -> Vm | None:
        return watched.vm if watched is not None else None

    with target.open() as client:
        found = client.operation(identity)
        with report_if_interrupted(lambda: unfinished_text(found, vm())), progress_line() as progress:
            watched = _subject(client, found, progress)
            look = watched.look if watched is not None else lambda: progress.show(f"{found.kind}: {found.state}")
            found = watch_operation(client, found, until, look)
        fields = _fields(client, [found], output)
    show_one(found, fields, output)
    if (error := operation_failure(found, vm())) is not None:
        raise error


def _subject(client: Client, operation: Operation, progress: Progress) -> WatchedVm | None:
    """Return the VM of an operation; None if it is gone, or hidden from this key."""
    from hostler.control.client.errors import NotAllowedError, ServerNotFoundError

    if not operation.kind.startswith("vm."):
        return None
    with suppress(NotAllowedError, ServerNotFoundError):
        return WatchedVm(client, client.vms.get(operation.subject), progress)
    return None
