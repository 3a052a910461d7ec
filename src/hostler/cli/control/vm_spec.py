"""What a VM shall be, from options and from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.control.asking import read_pairs
from hostler.cli.control.connecting import complete_host, complete_strategy
from hostler.cli.options import FILE
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.config import Document
    from hostler.control.api.shapes import VmCreate
    from hostler.control.vms.spec import VmSpec

__all__ = ["read_spec", "read_wishes", "spec_options", "spec_words"]

F = TypeVar("F", bound=Callable[..., Any])

_HEADS = ("apiVersion", "kind")
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
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option("--cpu", metavar="AMOUNT", default=None, help="Processors, such as 2 or 500m."),
    click.option("--memory", metavar="AMOUNT", default=None, help="Memory, such as 4Gi."),
    click.option(
        "--disk",
        "disks",
        metavar="SIZE[,image=…][,storage=…]",
        multiple=True,
        help="A disk: its size, what it begins with (a path on the host, or a URL with sha256=…), and shared storage. "
        "As often as wanted.",
    ),
    click.option("--device", "devices", metavar="KIND[=COUNT]", multiple=True, help="Devices, such as gpu=1."),
    click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label of the VM; may be repeated."),
    click.option("--selector", "selectors", metavar="KEY=VALUE", multiple=True, help="A label that its host has."),
    click.option(
        "--host", "host_name", metavar="NAME", default=None, shell_complete=complete_host,
        help="The only host that will do.",
    ),
    click.option(
        "--strategy", metavar="NAME", default=None, shell_complete=complete_strategy,
        help="The policy that places it; else the service's.",
    ),
    click.option("--priority", metavar="N", type=int, default=None, help="Higher may take the room of lower."),
    click.option("--gang", metavar="NAME", default=None, help="Its gang: placed together or not at all."),
    click.option("--bridge", metavar="NAME", default=None, help="A bridge of its host; else its card leads nowhere."),
    click.option("--kernel", metavar="PATH", default=None, help="A kernel on the host, to boot directly."),
    click.option("--initrd", metavar="PATH", default=None, help="An initial file system on the host."),
    click.option("--kernel-arguments", metavar="TEXT", default=None, help="What the kernel is told."),
    click.option("--reserve", is_flag=True, help="Keep its cpu and memory also while it is stopped."),
    click.option(
        "--when-lost",
        type=click.Choice(["keep", "restart"]),
        default=None,
        help="What happens when its host is proved dead.",
    ),
)  # fmt: skip


def spec_words(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec that options name; what they do not name is not there."""
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


def read_spec(words: dict[str, Any], place: str = "the options") -> VmSpec:
    """Return the spec that words make."""
    from hostler.config import Document, convert
    from hostler.control.vms.spec import VmSpec, checked

    for needed in ("cpu", "memory"):
        if needed not in words:
            raise InputError(f"a VM needs {needed}", hint=f"give --{needed}, or a file with -f")
    return checked(convert(Document(words, place), words, VmSpec))


def read_wishes(files: Sequence[str], name: str, words: dict[str, Any], project: str, count: int) -> list[VmCreate]:
    """Return the VMs of files and options; options beat what stands in a file.

    A document is a spec, or a whole request with name and spec. Without files the options are all.
    """
    from hostler.config import read_documents
    from hostler.control.api.shapes import VmCreate
    from hostler.control.vms.names import check_name

    if not files:
        if not name:
            raise InputError("the VM needs a name", hint="hostler vm create NAME …")
        _check_no_project(name)
        check_name("the VM's name", name)
        found = [VmCreate(name=name, project=project, spec=read_spec(words))]
    else:
        documents = read_documents(files)
        found = [_wish(document, name, words, project, len(documents)) for document in documents]
    if not found:
        raise InputError("the files describe no VM", hint="write a mapping with name and spec")
    if count == 1:
        return found
    import msgspec

    numbered = [(wish, number) for wish in found for number in range(count)]
    return [msgspec.structs.replace(wish, name=f"{wish.name}-{number}") for wish, number in numbered]


def _check_no_project(name: str) -> None:
    """Refuse PROJECT/NAME, by which every other command names a VM, with the option that says the same here."""
    project, slash, word = name.partition("/")
    if slash:
        hint = f"name the project by its option: {word} -p {project}"
        raise InputError(f"{name[:80]!r} is no name for a new VM", hint=hint)


def _wish(document: Document, name: str, words: dict[str, Any], project: str, documents: int) -> VmCreate:
    from hostler.config import convert
    from hostler.control.api.shapes import VmCreate
    from hostler.control.vms.names import check_name
    from hostler.control.vms.spec import VmSpec, checked

    data: Any = document.data
    if not isinstance(data, dict):
        raise InputError(f"{document.where()}: this is no VM", hint="write a mapping with name and spec")
    data = {key: value for key, value in data.items() if key not in _HEADS}
    if "spec" not in data:
        data = {"spec": data}
    if name:
        if documents > 1:
            raise InputError(f"{name!r} cannot name {documents} VMs", hint="leave it out, and name them in the file")
        _check_no_project(name)
        data["name"] = name
    if "name" not in data:
        raise InputError(f"{document.where()}: the VM has no name", hint="write name: … beside spec, or give NAME")
    spec = data["spec"]
    if isinstance(spec, dict) and words:
        data["spec"] = {**spec, **words}
    data.setdefault("project", project)
    for key in ("name", "project"):
        if isinstance(data[key], str):  # else it is of another type, which is told of below
            check_name(f"{document.where((key,))}: {key}", data[key])
    found = convert(document, data, VmCreate)
    spec = checked(convert(document, data["spec"], VmSpec))
    import msgspec

    return msgspec.structs.replace(found, spec=spec)


def _disk(text: str) -> dict[str, Any]:
    size, *parts = text.split(",")
    given = read_pairs("--disk", parts)
    unknown = set(given) - {"image", "storage", "sha256"}
    if unknown or not size or "=" in size:
        raise InputError(f"--disk {text[:80]!r} is no disk", hint=_DISK_HINT)
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
        raise InputError(f"--device {text[:80]!r} is no wish for devices", hint="such as gpu or gpu=2")
    return {"kind": kind, "count": int(count or 1)}


FILES = click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    type=FILE,
    multiple=True,
    help="VMs as YAML or JSON: each document a spec, or name and spec. '-' is standard input.",
)
