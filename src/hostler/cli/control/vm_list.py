"""``hostler vm list``, ``get`` and ``queue``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.connecting import There, complete_host, connects
from hostler.cli.control.hints import none_in, none_yet
from hostler.cli.control.listing import check_host, listed
from hostler.cli.control.showing import Field, age, output, show_list, show_one
from hostler.cli.control.vm_fields import DETAILS, FIELDS, complete_vm, why_text
from hostler.cli.options import examples
from hostler.cli.terminal import note, print_data_line, printable
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.api.shapes import Vm, Waiting
    from hostler.control.client import Client

__all__ = ["get", "list_", "queue"]

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
@click.option("-A", "--all-projects", is_flag=True, help="Of all projects that the key opens.")
@click.option("--state", type=click.Choice(_STATES), default=None, help="Only VMs that are so.")
@click.option("--power", type=click.Choice(["running", "stopped", "paused"]), default=None, help="What is wanted.")
@click.option("--host", metavar="NAME", default="", shell_complete=complete_host, help="Only VMs of this host.")
@click.option("--gang", metavar="NAME", default="", help="Only VMs of this gang.")
@click.option("-l", "--label", "labels", metavar="KEY=VALUE", multiple=True, help="Only VMs with this label.")
@click.option("--name", metavar="NAME", default="", help="Only VMs of this name.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=None, help="At most so many.")
@click.option("-w", "--watch", is_flag=True, help="Go on with a line for every change, until interrupted.")
@connects
@output
def list_(
    there: There, all_projects: bool, state: str | None, power: str | None, host: str, gang: str,
    labels: tuple[str, ...], name: str, limit: int | None, watch: bool, output: str,
) -> None:  # fmt: skip
    """List the VMs of a project, oldest first."""
    if watch and output == "yaml":
        raise InputError("--watch writes no YAML", hint="-o json writes an object per line")
    with there.open() as client:
        chosen = _Chosen(
            project="" if all_projects else client.reach.project, state=state or "", power=power or "", host=host,
            gang=gang, labels=labels, name=name,
        )  # fmt: skip
        if watch:
            _watch(client, chosen, output)
            return
        found = listed(client, chosen.project, client.vms.list(**msgspec.structs.asdict(chosen), limit=limit or 0))
        if chosen.host and not found:
            check_host(client, chosen.host)
        show_list(found, _fields(found, output), output, nothing=chosen.nothing())


@click.command(
    epilog=examples("hostler vm get web-0", "hostler vm get team-a/web-0 -o json"), short_help="Show one VM."
)
@click.argument("vm", metavar="VM", shell_complete=complete_vm)
@connects
@output
def get(there: There, vm: str, output: str) -> None:
    """Show a VM: what is wanted, how it is, and what is in the way."""
    with there.open() as client:
        show_one(client.vms.find(vm, client.reach.project), DETAILS, output)


@click.command(
    epilog=examples("hostler vm queue", "hostler vm queue -o json"), short_help="Show the VMs that wait, and why."
)
@click.option("-A", "--all-projects", is_flag=True, help="Of all projects that the key opens.")
@connects
@output
def queue(there: There, all_projects: bool, output: str) -> None:
    """Show the VMs that wait for a place, and why.

    WHY is what was found when a VM was tried last, so long ago as TRIED says: it is tried again when something changes
    that could help it.
    'hostler vm explain' looks at the hosts as they are now.
    """
    fields: list[Field[Waiting]] = [
        Field("VM", lambda one: f"{one.project}/{one.name}"),
        Field("STATE", lambda one: one.state),
        Field("PRIORITY", lambda one: one.priority, "right"),
        Field("GANG", lambda one: one.gang, is_wide=True),
        Field("SINCE", lambda one: age(one.since), "right"),
        Field("TRIED", lambda one: age(one.tried_at), "right"),
        Field("WHY", lambda one: one.why),
    ]
    with there.open() as client:
        project = "" if all_projects else client.reach.project
        found = listed(client, project, client.vms.queue(project=project))
        show_list(found, fields, output, nothing="no VM waits")
    if found and output in ("table", "wide"):
        note("WHY is of the last try; 'hostler vm explain NAME' looks at the hosts as they are now")


class _Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Which VMs are meant."""

    project: str
    state: str
    power: str
    host: str
    gang: str
    labels: tuple[str, ...]
    name: str

    def nothing(self) -> str:
        """Say that there are none: whoever asked for all has none yet."""
        is_some = self.state or self.power or self.host or self.gang or self.labels or self.name
        return none_in(self.project, "such VMs") if is_some else none_yet(self.project, "VMs", _MAKE)


def _fields(found: list[Vm], form: str) -> list[Field[Vm]]:
    """Return the columns of a list; where something is in the way of a VM, the narrow table says so too, in short."""
    is_hindered = form == "table" and any(map(why_text, found))
    return [*FIELDS, Field("WHY", lambda vm: _short(why_text(vm)))] if is_hindered else FIELDS


def _short(text: str) -> str:
    return text if len(text) <= _MOST_WHY else f"{text[: _MOST_WHY - 1].rstrip()}…"


def _watch(client: Client, chosen: _Chosen, form: str) -> None:
    """Write the VMs that there are, then each that changes; one that is not chosen any more is shown a last time.

    The list is read whenever the server says that something changed: events tell what was asked for and decided, not
    how far a host is with it. A fleet whose list takes long to read is read less often.
    """
    from hostler.control.client.news import News

    shown: dict[str, Vm] = {}
    table = _Rows(form)
    with News(client.reach) as news:
        while True:
            began = time.monotonic()
            shown = _look(client, chosen, shown, table)
            time.sleep(max(_LEAST_S, time.monotonic() - began))
            news.wait()


def _look(client: Client, chosen: _Chosen, shown: dict[str, Vm], table: _Rows) -> dict[str, Vm]:
    """Write what differs from what was shown; return what is shown now."""
    from hostler.control.client.errors import UnknownThereError

    found = {vm.id: vm for vm in client.vms.list(**msgspec.structs.asdict(chosen))}
    for vm in found.values():
        if vm.id not in shown or _seen(shown[vm.id]) != _seen(vm):
            table.write(vm)
    for vm in (vm for vm in shown.values() if vm.id not in found):
        try:
            table.write(client.vms.get(vm.id))
        except UnknownThereError:
            table.write(vm, state="gone")
    return found


def _seen(vm: Vm) -> tuple[object, ...]:
    return vm.state, vm.host, vm.power, why_text(vm), vm.spec


class _Rows:
    """Rows of a table whose end is not known."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._is_begun = False

    def write(self, vm: Vm, state: str = "") -> None:
        """Write one VM."""
        if self._form == "json":
            data = {**msgspec.to_builtins(vm), **({"state": state} if state else {})}
            print_data_line(data)
            return
        cells = [vm.project, vm.name, state or vm.state, vm.host or "-", why_text(vm)]
        if not self._is_begun:
            self._is_begun = True
            click.echo(_line(["PROJECT", "NAME", "STATE", "HOST", "WHY"]))
        click.echo(printable(_line(cells)))


def _line(cells: list[str]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, (12, 24, 10, 20, 0), strict=True)).rstrip()
