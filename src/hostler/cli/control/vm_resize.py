"""``hostler vm resize``: whatever can change of a VM that exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.cli.control.asking import read_patch
from hostler.cli.control.changing import show_changes
from hostler.cli.control.connecting import There, complete_host, complete_strategy, connects
from hostler.cli.control.showing import shape_output
from hostler.cli.control.vm_fields import complete_vm
from hostler.cli.control.waiting import WaitingCommand, follow, wait_option
from hostler.cli.options import FILE, examples
from hostler.cli.terminal import note
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.client import Client

__all__ = ["resize"]

_EMPTIED = ("host_name", "strategy")  # '' sets them back


@click.command(
    cls=WaitingCommand,
    epilog=examples(
        "hostler vm resize web-0 --cpu 4 --memory 8Gi --wait",
        "hostler vm resize db --label tier=gold --label old-",
        "hostler vm resize db --host node-7",
        "hostler vm resize db --host '' --selector disk=ssd --selector zone-",
        "echo 'anti_affinity: null' | hostler vm resize db -f -",
        "hostler vm resize db --no-protected",
    ),
    short_help="Change size, place, labels or protection of a VM.",
)
@click.argument("vm", metavar="VM", shell_complete=complete_vm)
@click.option("--cpu", metavar="AMOUNT", default=None, help="Processors, such as 4.")
@click.option("--memory", metavar="AMOUNT", default=None, help="Memory, such as 8Gi.")
@click.option("--priority", metavar="N", type=int, default=None, help="Its priority.")
@click.option("--label", "labels", metavar="KEY=VALUE|KEY-", multiple=True, help="Set a label, or take it away.")
@click.option(
    "--host",
    "host_name",
    metavar="NAME",
    default=None,
    shell_complete=complete_host,
    help="The only host that will do; '' for any.",
)
@click.option(
    "--selector",
    "selectors",
    metavar="KEY=VALUE|KEY-",
    multiple=True,
    help="A label that its host must have, or no longer.",
)
@click.option(
    "--strategy",
    metavar="NAME",
    default=None,
    shell_complete=complete_strategy,
    help="The policy that places it; '' for its project's, else the service's.",
)
@click.option("--reserve/--no-reserve", default=None, help="Whether it keeps its cpu and memory while it is stopped.")
@click.option(
    "--when-lost",
    type=click.Choice(["keep", "restart"]),
    default=None,
    help="What happens when its host is proved dead.",
)
@click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    type=FILE,
    default="",
    help="Fields of its spec as YAML or JSON, for what has no option; null sets one back. '-' is standard input.",
)
@click.option("--protected/--no-protected", default=None, help="Whether it is protected from deletion.")
@wait_option("Wait until it has the new size")
@connects
@shape_output
def resize(
    there: There, vm: str, labels: tuple[str, ...], selectors: tuple[str, ...], file: str, protected: bool | None,
    wait_s: int | None, output: str, **plain: Any,  # noqa: ANN401 - options of click
) -> None:  # fmt: skip
    """Change a VM. More cpu or memory is a placement: it is pending while the host has no room for it.

    Only what is named changes, whatever others change at the same time. Where it may be (--host, --selector, and
    host_affinity, tolerations, affinity, anti_affinity or spread in a file) counts when it is placed next: a VM that
    has a host stays there. Options beat what stands in a file.
    """
    from hostler.control.api.shapes import VmEdit

    spec = _fields(file) if file else {}
    spec |= {name: value for name, value in plain.items() if value is not None}
    spec |= {name: None for name in _EMPTIED if spec.get(name) == ""}
    if labels:
        spec["labels"] = read_patch(labels)
    if selectors:
        spec["host_selector"] = read_patch(selectors)
    if not spec and protected is None:
        hint = "give --cpu, --memory, --label, --host, --selector, -f or another option; --help lists them"
        raise InputError("nothing is to be changed", hint=hint)
    with there.open() as client:
        found = client.vms.find(vm, client.reach.project)
        edit = VmEdit(spec=spec or msgspec.UNSET, protected=msgspec.UNSET if protected is None else protected)
        changes = follow(client, [client.vms.edit(found.id, edit)], wait_s)
        is_in_vain = changes[0].vm.power == "stopped" and bool(spec) and _fits_nowhere(client, found.id)
    if is_in_vain:
        name = f"{found.project}/{found.name}"
        note(f"no host would take it if it were started now: 'hostler vm explain {name}' says why")
    show_changes(changes, output, wait_s, before=[found])


def _fits_nowhere(client: Client, vm: str) -> bool:
    """Say whether a stopped VM would wait if it were started: nobody asks a host about it before that."""
    from hostler.control.client.errors import UnknownThereError

    try:
        told = client.vms.decision(vm)
    except UnknownThereError:
        return False
    return bool(told["if_started"] and told["verdicts"] and not told["feasible"])


def _fields(file: str) -> dict[str, Any]:
    """Return the fields of a spec that a file names, also where they stand below ``spec``, as 'vm get' prints them."""
    from hostler.config import read_documents

    documents = read_documents([file])
    data = documents[0].data if len(documents) == 1 else None
    if isinstance(data, dict) and "spec" in data:
        data = data["spec"]
    if not isinstance(data, dict):
        where = documents[0].where() if documents else file
        hint = "write one mapping of fields, such as anti_affinity: null"
        raise InputError(f"{where}: this says nothing that could change of a VM", hint=hint)
    return dict(data)
