"""``hostler vm create``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.cli.control.connecting import There, connects
from hostler.cli.control.showing import shape_output
from hostler.cli.control.vm_spec import FILES, read_wishes, spec_options, spec_words
from hostler.cli.control.waiting import WaitingCommand, end_with, follow, wait_option
from hostler.cli.options import examples
from hostler.cli.terminal import note, print_data, printable, progress, say

if TYPE_CHECKING:
    from hostler.control.api.shapes import VmChanged, VmCreate
    from hostler.control.client import Client

__all__ = ["create"]

_MANY = 20  # from here on a bar shows how far it is
_MOST = 10_000


@click.command(
    cls=WaitingCommand,
    epilog=examples(
        "hostler vm create web-0 --cpu 2 --memory 4Gi --disk 20Gi,image=/srv/images/debian.qcow2 --wait",
        "hostler vm create db --cpu 8 --memory 32Gi --disk 100Gi --selector disk=ssd --strategy best_fit",
        "hostler vm create worker --count 16 --cpu 4 --memory 8Gi --gang crew",
        "hostler vm create -f vm.yaml --fail-unplaced",
        "hostler vm get web-0 -o json | jq '{name: \"web-1\", spec}' | hostler vm create -f -",
    ),
    short_help="Create VMs, by options or from a file.",
)
@click.argument("name", metavar="[NAME]", required=False, default="")
@spec_options
@FILES
@click.option(
    "--count",
    metavar="N",
    type=click.IntRange(1, _MOST),
    default=1,
    show_default=True,
    help="So many equal ones: NAME-0, NAME-1 and so on.",
)
@click.option("--protected", is_flag=True, help="Refuse to delete it until this is taken back.")
@click.option(
    "--fail-unplaced",
    is_flag=True,
    help="Place it now or not at all: the exit code is 1 where no host has room. Else it waits for room.",
)
@wait_option("Wait until it runs")
@connects
@shape_output
def create(
    there: There, name: str, files: tuple[str, ...], count: int, protected: bool, fail_unplaced: bool,
    wait_s: int | None, output: str, **options: Any,  # noqa: ANN401 - those of spec_options
) -> None:  # fmt: skip
    """Create a VM, or many, and print where they are.

    Without --wait the command ends as soon as the control plane has written down what is wanted. A VM that fits nowhere
    is pending until room appears; 'hostler vm explain' says why. Options beat what stands in a file.

    A name is unique in its project: at most 63 letters, digits, '-', '_' and '.', the first and the last of them
    neither '-' nor '.'.
    """
    with there.open() as client:
        wishes = read_wishes(files, name, spec_words(options), client.reach.project, count)
        more: dict[str, Any] = {"on_unplaceable": "fail"} if fail_unplaced else {}
        more |= {"protected": True} if protected else {}
        wishes = [msgspec.structs.replace(wish, **more) for wish in wishes]
        made = _create(client, wishes)
        _note_gangs(client, wishes)
        changes = follow(client, made, wait_s)
    end_with(changes, wait_s, lambda: _show(changes, output))


def _show(changes: list[VmChanged], output: str) -> None:
    if output != "table":
        found = [msgspec.to_builtins(change) for change in changes]
        print_data(found[0] if len(found) == 1 else {"items": found}, output)
        return
    for change in changes:
        vm = change.vm
        where = f" on {vm.host}" if vm.host else f": {vm.why}" if vm.why else ""
        say(printable(f"{vm.project}/{vm.name} {vm.state}{where}"))


def _create(client: Client, wishes: list[VmCreate]) -> list[VmChanged]:
    """Ask for VMs one after the other; where one is refused, say what was made before."""
    made: list[VmChanged] = []
    with progress("VMs", len(wishes), is_long=len(wishes) >= _MANY) as advance:
        try:
            for wish in wishes:
                made.append(_place(client, wish))
                advance(1)
        finally:
            if made and len(made) < len(wishes):
                note(f"{len(made)} of {len(wishes)} VMs were created, the last is {made[-1].vm.name}")
    return made


def _note_gangs(client: Client, wishes: list[VmCreate]) -> None:
    """Say which gangs are not there yet: members may come first, and whoever mistyped the name would wait for ever."""
    from hostler.control.client.errors import NotAllowedError, UnknownThereError

    for project, gang in dict.fromkeys((wish.project, wish.spec.gang) for wish in wishes if wish.spec.gang):
        try:
            client.gangs.get(project, gang)
        except UnknownThereError:
            note(f"gang {project}/{gang} does not exist yet, and its VMs wait for it: 'hostler gang create' makes it")
        except NotAllowedError:
            continue  # this key may make VMs and read no gangs


def _place(client: Client, wish: VmCreate) -> VmChanged:
    """Ask for one VM; where nobody has room for it, the hint is in the words of this command."""
    from hostler.control.client.errors import NotPlacedError

    try:
        return client.vms.create(wish)
    except NotPlacedError as error:
        wait = "leave --fail-unplaced out and let it wait"
        hint = error.problem.hint.replace("let it wait: on_unplaceable=wait", wait)
        raise NotPlacedError(msgspec.structs.replace(error.problem, hint=hint)) from None
