"""Commands that change VMs: power, size, placement, deletion.

VMs are changed in turn. All are looked up before the first change. If a VM is rejected, the changes before it are
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.cli.control.connection import CommandTarget, complete_host, complete_strategy, complete_vm, target_options
from hostler.cli.control.options import confirm, read_patch, yes_option
from hostler.cli.control.output import do_in_turn, shape_output
from hostler.cli.control.progress import WaitingCommand, end_with, follow, wait_option
from hostler.cli.options import FILE, examples
from hostler.cli.output.terminal import note, print_data, printable, say
from hostler.errors import HostlerError, InputError, UnknownNameError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.control.client import Client
    from hostler.control.client.vms import Verb
    from hostler.control.schemas import Vm, VmChanged

__all__ = [
    "change_each", "change_vms", "delete", "find_all", "migrate", "pause", "resize", "restart", "resume",
    "show_changes", "start", "stop",
]  # fmt: skip

_AT_ONCE = {"protect": "protected from deletion", "unprotect": "no longer protected from deletion"}


def change_vms(
    target: CommandTarget,
    words: Sequence[str],
    change: Callable[[Client, Vm], VmChanged],
    wait_s: int | None,
    output: str,
) -> None:
    """Change VMs by their names, and show their states. All are looked up before the first change."""
    with target.open() as client:
        vms = find_all(client, words)
        changes = follow(client, change_each(vms, lambda vm: change(client, vm), output), wait_s)
    show_changes(changes, output, wait_s, before=vms)


def find_all(client: Client, words: Sequence[str]) -> list[Vm]:
    """Look VMs up by their names; a repeated name counts once. UnknownNameError.

    If one name of several is unknown, the hint says that nothing was changed.
    """
    try:
        found = [client.vms.find(word, client.target.project) for word in words]
    except HostlerError as error:
        if len(words) > 1:
            error.hint = f"{error.hint}; nothing was changed"
        raise
    return list({vm.id: vm for vm in found}.values())


def change_each(vms: Sequence[Vm], change: Callable[[Vm], VmChanged], output: str) -> list[VmChanged]:
    """Change VMs in turn. If one is rejected, show those that were changed before it."""
    return do_in_turn(vms, change, lambda done: show_changes(done, output, None, before=vms))


def show_changes(changes: Sequence[VmChanged], output: str, wait_s: int | None, before: Sequence[Vm] = ()) -> None:
    """Show the results of changes, and raise the first error. A VM as it was ``before`` was not changed."""
    known = {(vm.id, vm.version) for vm in before}
    end_with(changes, wait_s, lambda: _show(changes, output, known, is_waited_for=wait_s is not None))


def _show(
    changes: Sequence[VmChanged], output: str, known: Collection[tuple[str, int]], *, is_waited_for: bool
) -> None:
    """Show what was requested, and the state of each VM."""
    if output != "table":
        found = [msgspec.to_builtins(one) for one in changes]
        print_data(found[0] if len(found) == 1 else {"items": found}, output)
        return
    for one in changes:
        vm, deed = one.vm, one.operation.kind.rpartition(".")[2]
        where = f" on {vm.host}" if vm.host else ""
        gone = deed == "delete" and one.operation.state == "done"
        how = "" if gone else f"; it is {vm.state}{where}{f' ({vm.why})' if vm.why else ''}"
        is_kept = one.operation.state == "done" and (vm.id, vm.version) in known
        what = "nothing to change" if is_kept else _outcome(one, is_waited_for=is_waited_for)
        say(printable(f"{vm.project}/{vm.name}: {what}{how}"))


def _outcome(change: VmChanged, *, is_waited_for: bool) -> str:
    """Return what was done, or the progress."""
    deed, state = change.operation.kind.rpartition(".")[2], change.operation.state
    if state == "done":
        return _AT_ONCE.get(deed, f"{deed} done")
    return f"{deed} {state if is_waited_for else 'accepted'}"


def _power_command(verb: Verb, summary: str, text: str) -> click.Command:
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
    @target_options
    @shape_output
    def run(target: CommandTarget, vms: tuple[str, ...], wait_s: int | None, output: str) -> None:
        change_vms(target, vms, lambda client, vm: client.vms.act(vm.id, verb), wait_s, output)

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
@target_options
@shape_output
def start(target: CommandTarget, vms: tuple[str, ...], is_forced: bool, wait_s: int | None, output: str) -> None:
    """Start VMs."""
    change_vms(target, vms, lambda client, vm: client.vms.start(vm.id, is_forced=is_forced), wait_s, output)


stop = _power_command(
    "stop",
    "Stop VMs; they keep disk and host.",
    "Stop VMs.\n\nA stopped VM keeps its disk and host, and gives its cpu and memory back unless it was created with "
    "--reserve.",
)
restart = _power_command("restart", "Restart VMs.", "Stop VMs and start them again, on the hosts where they are.")
pause = _power_command(
    "pause", "Pause VMs; they keep all resources.", "Pause running VMs. They keep cpu, memory, disk and host."
)
resume = _power_command("resume", "Resume paused VMs.", "Resume paused VMs.")


_NAMES_SHOWN = 5  # names in a question


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
    help="The host; by default the best one with room.",
)
@click.option("--cancel", is_flag=True, help="Cancel a move that has not finished yet.")
@wait_option("Wait until it has moved, or stays")
@target_options
@shape_output
def migrate(target: CommandTarget, vm: str, host: str, cancel: bool, wait_s: int | None, output: str) -> None:
    """Move a running or stopped VM to another host, or cancel that.

    It needs shared storage or no disk at all and, while the VM runs, drivers on both hosts that support it.
    """
    if cancel and host:
        raise InputError("a move is called off wherever it goes", hint="give --cancel or --to, not both")

    def change(client: Client, found: Vm) -> VmChanged:
        return client.vms.cancel_migration(found.id) if cancel else client.vms.migrate(found.id, host)

    change_vms(target, [vm], change, wait_s, output)


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
@wait_option("Wait until it is deleted")
@target_options
@shape_output
def delete(
    target: CommandTarget, vms: tuple[str, ...], labels: tuple[str, ...], yes: bool, wait_s: int | None, output: str
) -> None:
    """Delete VMs with their disks, in any state. Asks first on a terminal."""
    if bool(vms) == bool(labels):
        raise InputError("VMs are named, or chosen by a label", hint="give VM… or -l KEY=VALUE, not both and not none")
    with target.open() as client:
        found = find_all(client, vms) if vms else _find_by_labels(client, labels)
        names = [f"{vm.project}/{vm.name}" for vm in found]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        confirm(
            f"Delete {plural(len(names), 'VM')} ({', '.join(names[:_NAMES_SHOWN])}{more}) with all disks?", is_sure=yes
        )
        changes = follow(client, change_each(found, lambda vm: client.vms.delete(vm.id), output), wait_s)
    show_changes(changes, output, wait_s)


def _find_by_labels(client: Client, labels: tuple[str, ...]) -> list[Vm]:
    """Return the VMs of the project with these labels; UnknownNameError if there are none."""
    found = list(client.vms.list(project=client.target.project, labels=labels))
    if not found:
        what = " and ".join(labels)
        hint = f"'hostler vm list -p {client.target.project} -o wide' shows labels; -p names another project"
        raise UnknownNameError(f"no VM of project {client.target.project} has the label {what}", hint=hint)
    return found


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
@click.option("--label", "labels", metavar="KEY=VALUE|KEY-", multiple=True, help="Set a label, or remove it with KEY-.")
@click.option(
    "--host",
    "host_name",
    metavar="NAME",
    default=None,
    shell_complete=complete_host,
    help="The only allowed host; '' for any.",
)
@click.option(
    "--selector",
    "selectors",
    metavar="KEY=VALUE|KEY-",
    multiple=True,
    help="A label that its host must have; KEY- removes one.",
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
@target_options
@shape_output
def resize(
    target: CommandTarget, vm: str, labels: tuple[str, ...], selectors: tuple[str, ...], file: str,
    protected: bool | None, wait_s: int | None, output: str, **plain: Any,  # noqa: ANN401 - options of click
) -> None:  # fmt: skip
    """Change a VM. More cpu or memory is a placement: it is pending while the host has no room for it.

    Only what is named changes, whatever others change at the same time. Where it may be (--host, --selector, and
    host_affinity, tolerations, affinity, anti_affinity or spread in a file) counts when it is placed next: a VM that
    has a host stays there. Options beat what stands in a file.
    """
    from hostler.control.schemas import VmEdit

    spec = _fields_of_file(file) if file else {}
    spec |= {name: value for name, value in plain.items() if value is not None}
    spec |= {name: None for name in _EMPTIED if spec.get(name) == ""}
    if labels:
        spec["labels"] = read_patch(labels)
    if selectors:
        spec["host_selector"] = read_patch(selectors)
    if not spec and protected is None:
        hint = "give --cpu, --memory, --label, --host, --selector, -f or another option; --help lists them"
        raise InputError("nothing to change", hint=hint)
    with target.open() as client:
        found = client.vms.find(vm, client.target.project)
        edit = VmEdit(spec=spec or msgspec.UNSET, protected=msgspec.UNSET if protected is None else protected)
        changes = follow(client, [client.vms.edit(found.id, edit)], wait_s)
        is_in_vain = changes[0].vm.power == "stopped" and bool(spec) and _fits_nowhere(client, found.id)
    if is_in_vain:
        name = f"{found.project}/{found.name}"
        note(f"no host would take it if it were started now: 'hostler vm explain {name}' says why")
    show_changes(changes, output, wait_s, before=[found])


def _fits_nowhere(client: Client, vm: str) -> bool:
    """Return whether a stopped VM would wait if it were started: it is not placed before that."""
    from hostler.control.client.errors import ServerNotFoundError

    try:
        told = client.vms.decision(vm)
    except ServerNotFoundError:
        return False
    return bool(told["if_started"] and told["verdicts"] and not told["feasible"])


def _fields_of_file(file: str) -> dict[str, Any]:
    """Return the fields of a spec in a file, also below ``spec``, as 'vm get' prints them."""
    from hostler.config import read_documents

    documents = read_documents([file])
    data = documents[0].data if len(documents) == 1 else None
    if isinstance(data, dict) and "spec" in data:
        data = data["spec"]
    if not isinstance(data, dict):
        where = documents[0].where() if documents else file
        hint = "write one mapping of fields, such as anti_affinity: null"
        raise InputError(f"{where}: it has no field of a VM that can change", hint=hint)
    return dict(data)
