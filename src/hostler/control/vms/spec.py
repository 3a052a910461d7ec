"""What a user asks for when creating or resizing a VM: one struct for REST, the database and answers.

Amounts are text as everywhere ("2", "500m", "4Gi"). ``check_vm_spec`` rejects invalid specs and writes amounts in their
shortest form, so equal specs are equal bytes. Constraints use the words of a fleet file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hostler.config.entries import Int32, Quantity, means
from hostler.config.fleet.file import DeviceRequestEntry
from hostler.config.fleet.file_terms import (
    GuestTermEntry,
    SpreadEntry,
    TermEntry,
    TolerationEntry,
    WeightedGuestTermEntry,
    WeightedTermEntry,
)
from hostler.control.vms.names import name_error
from hostler.control.vms.units import guess_unit
from hostler.errors import InputError, QuantityError
from hostler.model import CPU, MEMORY
from hostler.model.hosts import HOSTNAME
from hostler.model.resources import STORAGE, format_resource, parse_resource

__all__ = [
    "HOST_NAME", "DiskSpec", "ImageSpec", "NetworkSpec", "Size", "VmSpec", "check_labels", "check_selector",
    "check_texts", "check_vm_spec", "check_word", "size_of",
]  # fmt: skip

_MOST_CPU = 1_000_000
_MOST_BYTES = 2**50
_LEAST_MEMORY = 2**20
_SECTOR = 512  # hypervisors make disks of whole ones
_MAX_DISKS = 16
_MOST_JSON = 64 * 1024  # bytes of all of it: lists show many VMs at once, and every replica keeps them
_MAX_DEVICES = 16  # requests: the engine's bound
_MAX_MODELS = 64  # of all device requests: more than any vendor has in one generation, and short to show
_MAX_ENTRIES = 64  # of each list of constraints: every decision looks at all of them
_LISTS = (
    "devices", "host_affinity", "preferred_hosts", "tolerations", "affinity", "anti_affinity", "preferred_affinity",
    "preferred_anti_affinity", "spread",
)  # fmt: skip
_OURS = "hostler/"  # what keys begin with that only the service gives, to hosts
HOST_NAME = HOSTNAME  # the service gives it to each host, too
_MAX_LABELS = 64
_MAX_LABEL = 253
_HEX = frozenset("0123456789abcdef")

Path = Annotated[str, Meta(max_length=1024)]


class ImageSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a disk begins: a path under an image root of the host, or a URL with the hash of what is there."""

    path: Annotated[Path, means("A file under one of the image roots that the host's agent allows.")] = ""
    url: Annotated[Path, means("Where to fetch it; agents keep it. Needs sha256.")] = ""
    sha256: Annotated[str, means("The hash of what the URL gives, 64 hexadecimal digits.")] = ""


class DiskSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One disk: a file on the VM's host, or on shared storage."""

    size: Annotated[Quantity, means("How large it is, such as 20Gi.")]
    image: Annotated[ImageSpec | None, means("What it begins with. Without one it is empty.")] = None
    storage: Annotated[str, means("Shared storage, as hosts name it. Empty: a file on the host itself.")] = ""


class NetworkSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a VM's network card is connected to."""

    kind: Annotated[
        Literal["none", "user", "bridge"],
        means("none: no card. user: a card that leads nowhere, neither to the host nor out. bridge: a named one."),
    ] = "user"
    bridge: Annotated[str, means("The bridge, as hosts name it.")] = ""


class VmSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a VM needs, and where it may run."""

    cpu: Annotated[Quantity, means("Processors, such as 2 or 500m.")]
    memory: Annotated[Quantity, means("Memory, such as 4Gi.")]
    disks: Annotated[list[DiskSpec], means("Its disks. Without one it boots from kernel and initrd.")] = []
    devices: Annotated[list[DeviceRequestEntry], means("Devices, or shares of them, that it needs.")] = []
    kernel: Annotated[Path, means("A kernel under an image root, to boot directly.")] = ""
    initrd: Annotated[Path, means("An initial file system under an image root.")] = ""
    kernel_arguments: Annotated[str, Meta(max_length=2048), means("The kernel's command line.")] = ""
    network: Annotated[NetworkSpec, means("Its network.")] = NetworkSpec()
    labels: Annotated[dict[str, str], means("Names with values by which others may choose it.")] = {}
    priority: Annotated[Int32, means("Higher ones are placed first, and may take the room of lower ones.")] = 0
    strategy: Annotated[str, means("The policy that places it. Empty: the service's default.")] = ""
    gang: Annotated[str, means("Its gang in the same project: placed together or not at all.")] = ""
    reserve: Annotated[bool, means("True: when it is stopped it keeps its cpu and memory.")] = False
    when_lost: Annotated[
        Literal["keep", "restart"],
        means("What happens when its host is proved dead: wait for it, or start elsewhere (no local disk)."),
    ] = "keep"
    host_name: Annotated[str, means("The only host that will do.")] = ""
    host_selector: Annotated[dict[str, str], means("Labels that its host must have, with these values.")] = {}
    host_affinity: Annotated[list[TermEntry], means("Its host must match at least one of these terms.")] = []
    preferred_hosts: Annotated[list[WeightedTermEntry], means("Terms that it would like its host to match.")] = []
    tolerations: Annotated[list[TolerationEntry], means("Taints that do not keep it away.")] = []
    affinity: Annotated[list[GuestTermEntry], means("VMs that it must be near to.")] = []
    anti_affinity: Annotated[list[GuestTermEntry], means("VMs that must not be near.")] = []
    preferred_affinity: Annotated[list[WeightedGuestTermEntry], means("VMs that it would like to be near to.")] = []
    preferred_anti_affinity: Annotated[
        list[WeightedGuestTermEntry], means("VMs that it would rather not be near to.")
    ] = []
    spread: Annotated[list[SpreadEntry], means("How it and others like it are spread over domains.")] = []

    @property
    def is_movable(self) -> bool:
        """Say whether it can run on another host: it has no disk that lies on its own."""
        return all(disk.storage for disk in self.disks)


class Size(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a VM takes of its host; disks on shared storage do not count."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0

    def at_most(self, other: Size) -> Size:
        """Return the smaller of both, resource by resource."""
        return Size(
            cpu_millis=min(self.cpu_millis, other.cpu_millis),
            memory_bytes=min(self.memory_bytes, other.memory_bytes),
            disk_bytes=min(self.disk_bytes, other.disk_bytes),
        )

    def beyond(self, other: Size) -> Size:
        """Return by how much this exceeds the other, resource by resource."""
        return Size(
            cpu_millis=max(self.cpu_millis - other.cpu_millis, 0),
            memory_bytes=max(self.memory_bytes - other.memory_bytes, 0),
            disk_bytes=max(self.disk_bytes - other.disk_bytes, 0),
        )

    @property
    def disk_only(self) -> Size:
        """Return what a stopped VM keeps."""
        return Size(disk_bytes=self.disk_bytes)


def size_of(spec: VmSpec) -> Size:
    """Return what a checked spec takes of its host when it runs."""
    return Size(
        cpu_millis=_parsed(CPU, spec.cpu),
        memory_bytes=_parsed(MEMORY, spec.memory),
        disk_bytes=sum(_parsed(STORAGE, disk.size) for disk in spec.disks if not disk.storage),
    )


# Every write of a VM asks for its size, and sizes repeat.
_parsed = lru_cache(maxsize=4096)(parse_resource)


def check_vm_spec(spec: VmSpec) -> VmSpec:
    """Return a spec with its amounts in their shortest form, disks rounded up to whole sectors of 512 bytes.

    InputError for what can never be right; it names the field.
    """
    size = len(msgspec.json.encode(spec))
    if size > _MOST_JSON:
        hint = f"at most {_MOST_JSON}: select by fewer labels, values and names, and write shorter texts"
        raise InputError(f"spec: it has {size} bytes as JSON", hint=hint)
    cpu = _amount("cpu", CPU, spec.cpu, least=1, most=_MOST_CPU)
    memory = _amount("memory", MEMORY, spec.memory, least=_LEAST_MEMORY, most=_MOST_BYTES)
    if len(spec.disks) > _MAX_DISKS:
        raise InputError(f"disks: {len(spec.disks)} of them", hint=f"a VM has at most {_MAX_DISKS}")
    disks = [_checked_disk(f"disks[{at}]", disk) for at, disk in enumerate(spec.disks)]
    if sum(parse_resource(STORAGE, disk.size) for disk in disks) > _MOST_BYTES:
        raise InputError("disks: together they are too large", hint="at most 1Pi in all")
    if spec.initrd and not spec.kernel:
        raise InputError("initrd: there is no kernel to boot with it", hint="name a kernel, or remove it")
    if spec.kernel_arguments and not spec.kernel:
        raise InputError("kernel_arguments: there is no kernel to tell them to", hint="name a kernel, or remove them")
    if not spec.kernel_arguments.isprintable():
        raise InputError("kernel_arguments: they have control characters", hint="write one line of plain text")
    _check_path("kernel", spec.kernel)
    _check_path("initrd", spec.initrd)
    _check_network(spec.network)
    check_labels("labels", spec.labels)
    check_selector("host_selector", spec.host_selector)
    check_word("strategy", spec.strategy)
    check_word("gang", spec.gang)
    if len(spec.host_name) > _MAX_LABEL or not spec.host_name.isprintable() or " " in spec.host_name:
        raise InputError(f"host_name: {spec.host_name[:60]!r} is not a name", hint="write it as the host does")
    for name in _LISTS:
        if len(getattr(spec, name)) > _MAX_ENTRIES:
            raise InputError(f"{name}: {len(getattr(spec, name))} of them", hint=f"there are at most {_MAX_ENTRIES}")
        check_texts(name, msgspec.to_builtins(getattr(spec, name)))
    _check_devices(spec)
    if spec.when_lost == "restart" and not spec.is_movable:
        hint = "use shared storage or no disk, or leave when_lost at keep"
        raise InputError("when_lost: a VM with a local disk cannot start on another host", hint=hint)
    return msgspec.structs.replace(spec, cpu=cpu, memory=memory, disks=disks)


def _check_devices(spec: VmSpec) -> None:
    """Reject more device requests or models than one VM may name."""
    if len(spec.devices) > _MAX_DEVICES:
        raise InputError(f"devices: {len(spec.devices)} of them", hint=f"a VM has at most {_MAX_DEVICES} requests")
    models = sum(len(device.models) for device in spec.devices)
    if models > _MAX_MODELS:
        hint = f"name at most {_MAX_MODELS} in all, or none: then any model will do"
        raise InputError(f"devices: they name {models} models", hint=hint)


def check_labels(place: str, labels: dict[str, str]) -> None:
    """Reject labels that cannot be written in a file, and those that the service itself gives to hosts."""
    check_selector(place, labels)
    for key in labels:
        if key.startswith(_OURS) or key == HOST_NAME:
            hint = "choose another key; host_selector may name those that the service gives to hosts"
            raise InputError(f"{place}: {key[:60]!r} is a label that only the service gives", hint=hint)


def check_selector(place: str, labels: dict[str, str]) -> None:
    """Reject selector labels that cannot be written in a file."""
    if len(labels) > _MAX_LABELS:
        raise InputError(f"{place}: {len(labels)} of them", hint=f"there are at most {_MAX_LABELS}")
    for key, value in labels.items():
        if not key or len(key) > _MAX_LABEL or not key.isprintable() or " " in key:
            raise InputError(f"{place}: a key is {key[:40]!r}", hint="1 to 253 characters, none of them a space")
        if len(value) > _MAX_LABEL or not value.isprintable():
            raise InputError(f"{place}: the value of {key!r} is {value[:40]!r}", hint="at most 253 plain characters")


def _amount(place: str, resource: str, value: Quantity, *, least: int, most: int) -> str:
    try:
        amount = parse_resource(resource, value)
    except QuantityError as error:
        raise QuantityError(f"{place}: {error.message}", hint=f"{guess_unit(resource, value)}{error.hint}") from None
    if not least <= amount <= most:
        low, high = format_resource(resource, least), format_resource(resource, most)
        hint = f"{guess_unit(resource, value) if amount < least else ''}{low} to {high}"
        raise QuantityError(f"{place}: {format_resource(resource, amount)} is out of range", hint=hint)
    return format_resource(resource, amount)


def _checked_disk(place: str, disk: DiskSpec) -> DiskSpec:
    size = _amount(f"{place}.size", STORAGE, disk.size, least=_LEAST_MEMORY, most=_MOST_BYTES)
    size = format_resource(STORAGE, -(-parse_resource(STORAGE, size) // _SECTOR) * _SECTOR)
    image = disk.image
    if image is not None:
        if bool(image.path) == bool(image.url):
            raise InputError(f"{place}.image: it needs a path or a URL, one of them", hint="name one")
        _check_path(f"{place}.image.path", image.path)
        is_plain = image.url.isprintable() and " " not in image.url
        if image.url and not (image.url.startswith(("https://", "http://")) and is_plain):
            raise InputError(
                f"{place}.image.url: not a web address", hint="it begins with https:// or http:// and has no spaces"
            )
        if image.url and (len(image.sha256) != 64 or not set(image.sha256) <= _HEX):
            hint = "write the SHA-256 of the file in lower-case hexadecimal"
            raise InputError(f"{place}.image.sha256: needed for a URL, 64 hexadecimal digits", hint=hint)
        if image.path and image.sha256:
            raise InputError(f"{place}.image.sha256: only for a URL", hint="remove it")
    check_word(f"{place}.storage", disk.storage)
    return msgspec.structs.replace(disk, size=size)


def check_texts(place: str, value: object) -> None:
    """Refuse long texts anywhere in constraints, and those that hide something: verdicts of hosts repeat them."""
    if isinstance(value, str) and len(value) > _MAX_LABEL:
        raise InputError(f"{place}: {value[:40]!r}… is too long", hint=f"at most {_MAX_LABEL} characters")
    if isinstance(value, str) and not value.isprintable():
        raise InputError(f"{place}: {value[:40]!r} has control characters", hint="write plain text")
    if isinstance(value, dict):
        for key, one in value.items():
            check_texts(place, key)
            check_texts(f"{place}.{key[:40]}", one)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            check_texts(f"{place}[{at}]", one)


def _check_path(place: str, path: str) -> None:
    if not path:
        return
    if not path.startswith("/") or not path.isprintable() or ".." in path.split("/"):
        raise InputError(f"{place}: {path[:60]!r} is not an absolute path", hint="a plain path without '..'")


def _check_network(network: NetworkSpec) -> None:
    if (network.kind == "bridge") != bool(network.bridge):
        raise InputError("network: a bridge needs its name, and only a bridge has one", hint="write kind and bridge")
    check_word("network.bridge", network.bridge)


def check_word(place: str, word: str) -> None:
    """Refuse a name that is not a plain word; none at all is fine."""
    is_plain = all(letter.isalnum() or letter in "-_." for letter in word) and word.isascii()
    if len(word) > 63 or not is_plain or word[:1] in ("-", "."):
        raise name_error(place, word)
