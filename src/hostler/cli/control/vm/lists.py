"""``hostler vm list`` and ``get``: the columns of VMs, and lists that follow every change."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.connection import CommandTarget, complete_host, complete_vm, target_options
from hostler.cli.control.output import Field, age, amount_text, labels_text, output, show_list, show_one
from hostler.cli.control.resource_commands import all_projects_option, list_in_project, nothing_in_project, nothing_yet
from hostler.cli.options import examples
from hostler.cli.output.terminal import print_data_line, printable
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.client import Client
    from hostler.control.schemas import Vm

__all__ = ["get", "list_"]


def disks_text(vm: Vm) -> str:
    """Format the disks of a VM in one line."""
    disks = ((amount_text("storage", disk.size), disk.storage) for disk in vm.spec.disks)
    return ", ".join(f"{size}{f' on {storage}' if storage else ''}" for size, storage in disks)


def _cpu(vm: Vm) -> str:
    return _size("cpu", vm.spec.cpu, vm.booked.cpu if vm.booked is not None else None)


def _memory(vm: Vm) -> str:
    return _size("memory", vm.spec.memory, vm.booked.memory if vm.booked is not None else None)


def _size(resource: str, wanted: object, has: str | None) -> str:
    """Format an amount; during a resize also the current one."""
    text = amount_text(resource, wanted)
    return f"{text} wanted, {amount_text(resource, has)} now" if has is not None and has != str(wanted) else text


def _where(vm: Vm) -> str:
    return f"{vm.host or '-'} → {vm.moving_to}" if vm.moving_to else vm.host or "-"


def _conditions(vm: Vm) -> str:
    from hostler.control.schemas.texts import condition_text

    return "\n".join(f"{one.type}: {condition_text(one)}" for one in vm.conditions)


FIELDS: list[Field[Vm]] = [
    Field("PROJECT", lambda vm: vm.project),
    Field("NAME", lambda vm: vm.name),
    Field("STATE", lambda vm: vm.state),
    Field("HOST", _where),
    Field("CPU", lambda vm: vm.spec.cpu, "right"),
    Field("MEMORY", lambda vm: amount_text("memory", vm.spec.memory), "right"),
    Field("DISKS", disks_text),
    Field("AGE", lambda vm: age(vm.created_at), "right"),
    Field("POWER", lambda vm: vm.power, is_wide=True),
    Field("SETTLED", lambda vm: vm.observed_generation >= vm.generation, is_wide=True),
    Field("PRIORITY", lambda vm: vm.spec.priority, "right", is_wide=True),
    Field("GANG", lambda vm: vm.spec.gang, is_wide=True),
    Field("LABELS", lambda vm: labels_text(vm.spec.labels), is_wide=True),
    Field("ID", lambda vm: vm.id, is_wide=True),
    Field("WHY", lambda vm: vm.blocker, is_wide=True),
]

DETAILS: list[Field[Vm]] = [
    Field("Name", lambda vm: f"{vm.project}/{vm.name}"),
    Field("Id", lambda vm: vm.id),
    Field("State", lambda vm: vm.state),
    Field("Wanted", lambda vm: vm.power),
    Field("Why", lambda vm: vm.blocker),
    Field("Tried", lambda vm: f"{vm.tried_at} ({age(vm.tried_at)})" if vm.tried_at else ""),
    Field("Host", _where),
    Field("CPU", _cpu),
    Field("Memory", _memory),
    Field("Disks", disks_text),
    Field("Network", lambda vm: vm.spec.network.bridge or vm.spec.network.kind),
    Field("Labels", lambda vm: labels_text(vm.spec.labels) if vm.spec.labels else ""),
    Field("Strategy", lambda vm: vm.spec.strategy),
    Field("Priority", lambda vm: vm.spec.priority or ""),
    Field("Gang", lambda vm: vm.spec.gang),
    Field("When lost", lambda vm: vm.spec.when_lost),
    Field("Protected", lambda vm: "yes" if vm.protected else ""),
    Field("Restarts", lambda vm: vm.restarts or ""),
    Field("Created", lambda vm: f"{vm.created_at} ({age(vm.created_at)})"),
    Field("Conditions", _conditions),
]


_MAKE = "'hostler vm create NAME --cpu 2 --memory 4Gi' makes one"
_MOST_WHY = 72  # letters of a reason in a narrow table
_LEAST_S = 0.25  # between two looks
_STATES = (
    "pending", "creating", "starting", "running", "paused", "stopping", "stopped", "migrating", "resizing", "deleting",
    "failed", "unknown", "lost",
)  # fmt: skip


@click.command(
    "list",
    epilog=examples(
        "hostler vm list",
        "hostler vm list --all-projects --state pending -o wide",
        "hostler vm list --host node-3 --label tier=web",
        "hostler vm list --watch",
    ),
    short_help="List VMs, or watch them.",
)
@all_projects_option
@click.option("--state", type=click.Choice(_STATES), default=None, help="Only VMs in this state.")
@click.option(
    "--power",
    type=click.Choice(["running", "stopped", "paused"]),
    default=None,
    help="Only VMs with this desired power.",
)
@click.option("--host", metavar="NAME", default="", shell_complete=complete_host, help="Only VMs of this host.")
@click.option("--gang", metavar="NAME", default="", help="Only VMs of this gang.")
@click.option("-l", "--label", "labels", metavar="KEY=VALUE", multiple=True, help="Only VMs with this label.")
@click.option("--name", metavar="NAME", default="", help="Only VMs of this name.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=None, help="At most this number.")
@click.option("-w", "--watch", is_flag=True, help="Print a line for every change, until interrupted.")
@target_options
@output
def list_(
    target: CommandTarget, all_projects: bool, state: str | None, power: str | None, host: str, gang: str,
    labels: tuple[str, ...], name: str, limit: int | None, watch: bool, output: str,
) -> None:  # fmt: skip
    """List the VMs of a project, oldest first."""
    if watch and output == "yaml":
        raise InputError("--watch writes no YAML", hint="-o json writes an object per line")
    with target.open() as client:
        chosen = _Chosen(
            project="" if all_projects else client.target.project, state=state or "", power=power or "", host=host,
            gang=gang, labels=labels, name=name,
        )  # fmt: skip
        if watch:
            _watch(client, chosen, output)
            return
        found = list_in_project(
            client, chosen.project, client.vms.list(**msgspec.structs.asdict(chosen), limit=limit or 0)
        )
        if chosen.host and not found:
            _check_host(client, chosen.host)
        show_list(found, _fields(found, output), output, nothing=chosen.nothing())


@click.command(
    epilog=examples("hostler vm get web-0", "hostler vm get team-a/web-0 -o json"), short_help="Show one VM."
)
@click.argument("vm", metavar="VM", shell_complete=complete_vm)
@target_options
@output
def get(target: CommandTarget, vm: str, output: str) -> None:
    """Show a VM: desired state, current state, and what blocks it."""
    with target.open() as client:
        show_one(client.vms.find(vm, client.target.project), DETAILS, output)


class _Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a list."""

    project: str
    state: str
    power: str
    host: str
    gang: str
    labels: tuple[str, ...]
    name: str

    def nothing(self) -> str:
        """Return the text for an empty list."""
        is_some = self.state or self.power or self.host or self.gang or self.labels or self.name
        return nothing_in_project(self.project, "such VMs") if is_some else nothing_yet(self.project, "VMs", _MAKE)


def _check_host(client: Client, host: str) -> None:
    """Reject an unknown host, as far as the key may see hosts; a gang may be unknown. ServerNotFoundError."""
    from hostler.control.client.errors import NotAllowedError

    with suppress(NotAllowedError):
        client.hosts.get(host)


def _fields(found: list[Vm], form: str) -> list[Field[Vm]]:
    """Return the columns of a list. If a VM is blocked, the narrow table has a short reason too."""
    is_hindered = form == "table" and any(vm.blocker for vm in found)
    return [*FIELDS, Field("WHY", lambda vm: _short(vm.blocker))] if is_hindered else FIELDS


def _short(text: str) -> str:
    return text if len(text) <= _MOST_WHY else f"{text[: _MOST_WHY - 1].rstrip()}…"


def _watch(client: Client, chosen: _Chosen, form: str) -> None:
    """Write the current VMs, then each VM that changes. A VM that no longer matches is shown a last time.

    The list is read whenever the server reports a change: events have requests and decisions, but not the progress of
    hosts. A fleet whose list takes long to read is read less often.
    """
    from hostler.control.client.change_feed import ChangeFeed

    shown: dict[str, Vm] = {}
    table = _Rows(form)
    with ChangeFeed(client.target) as news:
        while True:
            began = time.monotonic()
            shown = _write_changes(client, chosen, shown, table)
            time.sleep(max(_LEAST_S, time.monotonic() - began))
            news.wait()


def _write_changes(client: Client, chosen: _Chosen, shown: dict[str, Vm], table: _Rows) -> dict[str, Vm]:
    """Write the differences to what was shown; return what is shown now."""
    from hostler.control.client.errors import ServerNotFoundError

    found = {vm.id: vm for vm in client.vms.list(**msgspec.structs.asdict(chosen))}
    for vm in found.values():
        if vm.id not in shown or _version_of(shown[vm.id]) != _version_of(vm):
            table.write(vm)
    for vm in (vm for vm in shown.values() if vm.id not in found):
        try:
            table.write(client.vms.get(vm.id))
        except ServerNotFoundError:
            table.write(vm, state="gone")
    return found


def _version_of(vm: Vm) -> tuple[object, ...]:
    return vm.state, vm.host, vm.power, vm.blocker, vm.spec


class _Rows:
    """Rows of a table without a known end."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._is_begun = False

    def write(self, vm: Vm, state: str = "") -> None:
        """Write one VM."""
        if self._form == "json":
            data = {**msgspec.to_builtins(vm), **({"state": state} if state else {})}
            print_data_line(data)
            return
        cells = [vm.project, vm.name, state or vm.state, vm.host or "-", vm.blocker]
        if not self._is_begun:
            self._is_begun = True
            click.echo(_line(["PROJECT", "NAME", "STATE", "HOST", "WHY"]))
        click.echo(printable(_line(cells)))


def _line(cells: list[str]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, (12, 24, 10, 20, 0), strict=True)).rstrip()
