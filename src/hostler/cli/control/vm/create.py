"""``hostler vm create``, and the options that describe a VM there, for ``plan`` and for ``candidates``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from hostler.cli.control.connection import CommandTarget, complete_host, complete_strategy, target_options
from hostler.cli.control.options import read_pairs
from hostler.cli.control.output import shape_output
from hostler.cli.control.progress import WaitingCommand, end_with, follow, wait_option
from hostler.cli.options import FilesOption, examples
from hostler.cli.output.terminal import note, print_data, printable, progress, say
from hostler.errors import InputError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.control.client import Client
    from hostler.control.schemas import VmChanged, VmCreate

__all__ = ["FILES", "create", "spec_options", "spec_words"]

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = (
    "cpu",
    "memory",
    "strategy",
    "priority",
    "gang",
    "kernel",
    "initrd",
    "kernel_arguments",
    "host_name",
    "when_lost",
)
_DISK_HINT = "such as 20Gi,image=/srv/images/debian.qcow2 or 20Gi,storage=ceph,image=https://…,sha256=…"


def spec_options(command: F) -> F:
    """Add the options that describe a VM; the command passes them on to ``spec_words``."""
    for option in reversed(_SPEC_OPTIONS):
        command = option(command)
    return command


_SPEC_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option("--cpu", metavar="AMOUNT", default=None, help="Processors, such as 2 or 500m."),
    click.option("--memory", metavar="AMOUNT", default=None, help="Memory, such as 4Gi."),
    click.option(
        "--disk",
        "disks",
        metavar="SIZE[,image=…][,storage=…]",
        multiple=True,
        help="A disk: its size, what it begins with (a path on the host, or a URL with sha256=…), and shared storage. "
        "May be repeated.",
    ),
    click.option("--device", "devices", metavar="KIND[=COUNT]", multiple=True, help="Devices, such as gpu=1."),
    click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label of the VM; may be repeated."),
    click.option("--selector", "selectors", metavar="KEY=VALUE", multiple=True, help="A label its host must have."),
    click.option(
        "--host", "host_name", metavar="NAME", default=None, shell_complete=complete_host,
        help="The only allowed host.",
    ),
    click.option(
        "--strategy", metavar="NAME", default=None, shell_complete=complete_strategy,
        help="The policy that places it; else the service's.",
    ),
    click.option("--priority", metavar="N", type=int, default=None, help="A higher priority may preempt a lower one."),
    click.option("--gang", metavar="NAME", default=None, help="Its gang: placed together or not at all."),
    click.option("--bridge", metavar="NAME", default=None, help="A bridge of its host; without one it has no network."),
    click.option("--kernel", metavar="PATH", default=None, help="A kernel on the host, to boot directly."),
    click.option("--initrd", metavar="PATH", default=None, help="An initial file system on the host."),
    click.option("--kernel-arguments", metavar="TEXT", default=None, help="The kernel's command line."),
    click.option("--reserve", is_flag=True, help="Keep its cpu and memory while it is stopped."),
    click.option(
        "--when-lost",
        type=click.Choice(["keep", "restart"]),
        default=None,
        help="What happens when its host is proved dead.",
    ),
)  # fmt: skip


def spec_words(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec from options; fields that are not given are left out."""
    words: dict[str, Any] = {name: options[name] for name in _PLAIN if options.get(name) is not None}
    if options.get("disks"):
        words["disks"] = [_disk(text) for text in options["disks"]]
    if options.get("devices"):
        words["devices"] = [_device(text) for text in options["devices"]]
    if options.get("labels"):
        words["labels"] = read_pairs("--label", options["labels"])
    if options.get("selectors"):
        words["host_selector"] = read_pairs("--selector", options["selectors"])
    if options.get("bridge"):
        words["network"] = {"kind": "bridge", "bridge": options["bridge"]}
    if options.get("reserve"):
        words["reserve"] = True
    return words


def _disk(text: str) -> dict[str, Any]:
    size, *parts = text.split(",")
    given = read_pairs("--disk", parts)
    unknown = set(given) - {"image", "storage", "sha256"}
    if unknown or not size or "=" in size:
        raise InputError(f"--disk {text[:80]!r} is not a disk", hint=_DISK_HINT)
    disk: dict[str, Any] = {"size": size}
    if "storage" in given:
        disk["storage"] = given["storage"]
    if "image" in given:
        is_url = "://" in given["image"]
        disk["image"] = {"url" if is_url else "path": given["image"]}
    if "sha256" in given:
        if "image" not in disk:
            raise InputError(f"--disk {text[:80]!r}: there is no image for that sha256", hint=_DISK_HINT)
        disk["image"]["sha256"] = given["sha256"]
    return disk


def _device(text: str) -> dict[str, Any]:
    kind, equals, count = text.partition("=")
    if not kind or (equals and not count.isdecimal()):
        raise InputError(f"--device {text[:80]!r} is not a device request", hint="such as gpu or gpu=2")
    return {"kind": kind, "count": int(count or 1)}


FILES = click.option(
    "-f",
    "--file",
    "files",
    cls=FilesOption,
    help="VMs as YAML or JSON: each document a spec, or name and spec. '-' is standard input.",
)


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
    help="This many equal ones: NAME-0, NAME-1 and so on.",
)
@click.option("--protected", is_flag=True, help="Protect it from deletion until this is undone.")
@click.option(
    "--fail-unplaced",
    is_flag=True,
    help="Place it now or not at all: the exit code is 1 if no host has room. By default it waits for room.",
)
@wait_option("Wait until it runs")
@target_options
@shape_output
def create(
    target: CommandTarget, name: str, files: tuple[str, ...], count: int, protected: bool, fail_unplaced: bool,
    wait_s: int | None, output: str, **options: Any,  # noqa: ANN401 - those of spec_options
) -> None:  # fmt: skip
    """Create a VM, or many, and print where they are.

    Without --wait the command ends as soon as the control plane has stored the request. A VM that fits nowhere is
    pending until there is room; 'hostler vm explain' says why. Options override the file.

    A name is unique in its project: at most 63 letters, digits, '-', '_' and '.', and neither '-' nor '.' at either
    end.
    """
    from hostler.control.client.vm_files import read_vm_requests

    with target.open() as client:
        wishes = read_vm_requests(files, name, spec_words(options), client.target.project, count)
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
    """Create VMs in turn. If one is rejected, a note says what was created before."""
    made: list[VmChanged] = []
    with progress("VMs", len(wishes), is_long=len(wishes) >= _MANY) as advance:
        try:
            for wish in wishes:
                made.append(_place(client, wish))
                _note_ignored(made[-1])
                advance(1)
        finally:
            if made and len(made) < len(wishes):
                note(f"{len(made)} of {plural(len(wishes), 'VM')} were created, the last is {made[-1].vm.name}")
    return made


def _note_gangs(client: Client, wishes: list[VmCreate]) -> None:
    """Print a note for gangs that do not exist yet: members may come first, but a mistyped name waits forever."""
    from hostler.control.client.errors import NotAllowedError, ServerNotFoundError

    for project, gang in dict.fromkeys((wish.project, wish.spec.gang) for wish in wishes if wish.spec.gang):
        try:
            client.gangs.get(project, gang)
        except ServerNotFoundError:
            note(f"gang {project}/{gang} does not exist yet, and its VMs wait for it: 'hostler gang create' creates it")
        except NotAllowedError:
            continue  # this key may make VMs and read no gangs


def _note_ignored(changed: VmChanged) -> None:
    """Print a note on soft constraints that the VM's strategy does not count."""
    if changed.ignored:
        strategy = changed.vm.spec.strategy or "the default one"
        note(f"VM {changed.vm.name}: strategy {strategy} does not count its {', '.join(changed.ignored)}")


def _place(client: Client, wish: VmCreate) -> VmChanged:
    """Create one VM. If no host has room, the hint names this command's options."""
    from hostler.control.client.errors import NotPlacedError

    try:
        return client.vms.create(wish)
    except NotPlacedError as error:
        wait = "leave --fail-unplaced out and let it wait"
        hint = error.problem.hint.replace("let it wait: on_unplaceable=wait", wait)
        raise NotPlacedError(msgspec.structs.replace(error.problem, hint=hint)) from None
