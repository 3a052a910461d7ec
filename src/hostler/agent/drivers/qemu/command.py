"""The command line of QEMU, made from values that were checked before. Pure.

No text of a user becomes part of an option: names are of a narrow alphabet, paths hold no commas, everything with a
structure is JSON, and the kernel's arguments are an argument of their own. So there is nothing to quote.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import msgspec

from hostler.agent.driver import PermanentError
from hostler.agent.drivers.machine.allowlist import plain_path
from hostler.agent.drivers.machine.processes import read_count
from hostler.agent.drivers.qemu.folder import VmFolder
from hostler.agent.messages import Order

__all__ = ["MACHINE", "Boot", "DiskFile", "command_line", "mac_of", "node_names", "size_from_arguments"]

# Of the oldest QEMU that is supported, so that hosts of different versions can exchange running VMs.
MACHINE = "pc-q35-7.2"
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_MIB = 2**20
_LONGEST_KERNEL_ARGUMENTS = 2000
_SIZE = re.compile(r"([0-9]{1,20})([KMGT]?)B?")
_UNITS = {"": _MIB, "K": 2**10, "M": _MIB, "G": 2**30, "T": 2**40}
_MOST_PROCESSORS = 4096  # more than any QEMU starts with
_MOST_MEMORY = 2**52  # bytes that a processor of today can address


class DiskFile(msgspec.Struct, frozen=True, kw_only=True):
    """A disk as it lies on the host: an overlay, and what it lies over, both opened and checked by the agent."""

    path: Path
    descriptor: int
    base: Path | None = None
    base_descriptor: int | None = None
    base_format: str = ""


class Boot(msgspec.Struct, frozen=True, kw_only=True):
    """All that an order does not say itself: files as they were found, and how this host runs VMs."""

    acceleration: str
    kernel: Path | None = None
    initrd: Path | None = None
    disks: tuple[DiskFile, ...] = ()
    tap: int | None = None  # the descriptor that QEMU inherits, of a tap on the bridge
    is_landing: bool = False


def command_line(program: str, order: Order, folder: VmFolder, boot: Boot) -> list[str]:
    """Return the whole command."""
    model = "host,migratable=on" if boot.acceleration == "kvm" else "max"
    line = [
        program, "-no-user-config", "-nodefaults", "-name", f"guest={folder.vm},debug-threads=off",
        "-machine", f"{MACHINE},usb=off,vmport=off,dump-guest-core=off", "-accel", boot.acceleration, "-cpu", model,
        "-smp", f"cpus={order.cpu_count}", "-m", f"size={-(-order.memory_bytes // _MIB)}M",
        "-sandbox", _SANDBOX, "-pidfile", plain_path(folder.pid), "-display", "none", "-vga", "none",
        "-chardev", f"socket,id=qmp,path={plain_path(folder.qmp)},server=on,wait=off",
        "-mon", "chardev=qmp,mode=control",
        "-chardev", f"file,id=console,path={plain_path(folder.console)},append=on", "-serial", "chardev:console",
    ]  # fmt: skip
    line += _boot(order, boot)
    for number, disk in enumerate(boot.disks):
        line += _disk(number, disk)
    line += _network(order, boot)
    # The guest waits: until it is known which files QEMU has opened, and at a landing until the source has given its
    # word that the VM never runs there again.
    line.append("-S")
    return [*line, "-incoming", "defer"] if boot.is_landing else line


def node_names(order: Order) -> set[str]:
    """Return the names of all files and formats that QEMU opens for the disks of a VM.

    QEMU gives names of its own, such as ``#block123``, to files that only a header names.
    """
    names: set[str] = set()
    for number, disk in enumerate(order.disks):
        for node in (f"disk{number}", f"disk{number}-base") if disk.image is not None else (f"disk{number}",):
            names |= {node, f"{node}-file"}
    return names


def mac_of(vm: str) -> str:
    """Return the address of a VM's network card: the same on every host, so that it survives a migration."""
    tail = hashlib.sha256(vm.encode()).digest()[:3]
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in tail)


def size_from_arguments(arguments: list[str]) -> tuple[int, int]:
    """Return the processors and the bytes of memory that a QEMU was started with; 0 for what cannot be told.

    Any process may have such arguments: what no QEMU would start with is not believed.
    """
    processors = read_count(_value(arguments, "-smp", ("cpus", "")), most=_MOST_PROCESSORS)
    memory = _SIZE.fullmatch(_value(arguments, "-m", ("size", "")).upper())
    if memory is None:
        return processors or 1, 0
    amount = (read_count(memory[1], most=_MOST_MEMORY) or 0) * _UNITS[memory[2]]
    return processors or 1, amount if amount <= _MOST_MEMORY else 0


def _boot(order: Order, boot: Boot) -> list[str]:
    if boot.kernel is None:
        if order.kernel_arguments or boot.initrd is not None:
            raise PermanentError("arguments or an initial RAM disk without a kernel", hint="name a kernel as well")
        return []
    text = order.kernel_arguments
    if len(text) > _LONGEST_KERNEL_ARGUMENTS or not text.isprintable():
        raise PermanentError("the kernel's arguments are too long or not printable", hint="at most 2000 characters")
    line = ["-kernel", plain_path(boot.kernel), "-append", text]
    return line if boot.initrd is None else [*line, "-initrd", plain_path(boot.initrd)]


def _disk(number: int, disk: DiskFile) -> list[str]:
    # QEMU gets descriptors and no names: what was checked cannot be exchanged before it is opened. Formats and what
    # lies below are said, never guessed from the bytes: a guest writes some of those.
    line, filename = _descriptor(2 * number, disk.descriptor, disk.path)
    node: dict[str, object] = {
        "driver": "qcow2",
        "node-name": f"disk{number}",
        "discard": "unmap",
        "file": {"driver": "file", "node-name": f"disk{number}-file", "filename": filename},
        "backing": None,
    }
    if disk.base is not None and disk.base_descriptor is not None:
        more, filename = _descriptor(2 * number + 1, disk.base_descriptor, disk.base)
        line += more
        base: dict[str, object] = {
            "driver": disk.base_format,
            "node-name": f"disk{number}-base",
            "read-only": True,
            "file": {
                "driver": "file",
                "node-name": f"disk{number}-base-file",
                "filename": filename,
                "locking": "off",
            },
        }
        if disk.base_format == "qcow2":
            base["backing"] = None
        node["backing"] = base
    device = {
        "driver": "virtio-blk-pci",
        "id": f"blk{number}",
        "drive": f"disk{number}",
        "bootindex": number + 1,
    }  # 0 is the kernel
    return [*line, "-blockdev", json.dumps(node), "-device", json.dumps(device)]


def _descriptor(number: int, descriptor: int, path: Path) -> tuple[list[str], str]:
    """Return the option that lets QEMU use an inherited descriptor, and the name that it has there."""
    # The path is only for people who look at the process.
    return ["-add-fd", f"fd={descriptor},set={number},opaque={plain_path(path)}"], f"/dev/fdset/{number}"


def _network(order: Order, boot: Boot) -> list[str]:
    if order.network.kind == "none":
        return []
    if order.network.kind == "user":
        back = "user,id=net0,restrict=on"  # a network, and no way out of it
    elif boot.tap is not None:
        back = f"tap,id=net0,fd={boot.tap}"
    else:
        raise PermanentError(f"no way to the bridge {order.network.bridge!r}", hint="order a user-mode network")
    device = {"driver": "virtio-net-pci", "id": "nic0", "netdev": "net0", "mac": mac_of(order.vm), "romfile": ""}
    return ["-netdev", back, "-device", json.dumps(device)]


def _value(arguments: list[str], option: str, keys: tuple[str, ...]) -> str:
    try:
        text = arguments[arguments.index(option) + 1]
    except (ValueError, IndexError):
        return ""
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if (key if equals else "") in keys:
            return value if equals else part
    return ""
