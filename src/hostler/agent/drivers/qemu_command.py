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

from hostler.agent.drivers.driver import PermanentError
from hostler.agent.drivers.qemu_folder import VmFolder
from hostler.agent.messages import Order

__all__ = ["MACHINE", "Boot", "DiskFile", "command_line", "mac_of", "plain_path", "size_from_arguments"]

# Of the oldest QEMU that is supported, so that hosts of different versions can exchange running VMs.
MACHINE = "pc-q35-7.2"
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_MIB = 2**20
_LONGEST_KERNEL_ARGUMENTS = 2000


class DiskFile(msgspec.Struct, frozen=True, kw_only=True):
    """A disk as it lies on the host: an overlay, and what it lies over."""

    path: Path
    base: Path | None = None
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
    if boot.is_landing:
        # Stopped on arrival: it runs when the source has given its word that it never will again.
        line += ["-S", "-incoming", "defer"]
    return line


def mac_of(vm: str) -> str:
    """Return the address of a VM's network card: the same on every host, so that it survives a migration."""
    tail = hashlib.sha256(vm.encode()).digest()[:3]
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in tail)


def plain_path(path: Path) -> str:
    """Return a path as text; one that would end an option, or read as something else than a file, is refused."""
    text = str(path)
    if not text.startswith("/") or any(char == "," or ord(char) < 32 or ord(char) == 127 for char in text):
        raise PermanentError(
            f"{text[:200]!r} cannot be given to QEMU", hint="rename it: no commas, no control characters"
        )
    return text


def size_from_arguments(arguments: list[str]) -> tuple[int, int]:
    """Return the processors and the bytes of memory that a QEMU was started with; 0 for what cannot be told."""
    smp = _value(arguments, "-smp", ("cpus", ""))
    memory = re.fullmatch(r"(\d+)([KMGT]?)B?", _value(arguments, "-m", ("size", "")).upper())
    unit = {"": _MIB, "K": 2**10, "M": _MIB, "G": 2**30, "T": 2**40}
    return int(smp) if smp.isdecimal() else 1, int(memory[1]) * unit[memory[2]] if memory else 0


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
    # Formats and what lies below are said, never guessed from the bytes: a guest writes some of those.
    node: dict[str, object] = {
        "driver": "qcow2",
        "node-name": f"disk{number}",
        "discard": "unmap",
        "file": {"driver": "file", "filename": plain_path(disk.path)},
        "backing": None,
    }
    if disk.base is not None:
        base: dict[str, object] = {
            "driver": disk.base_format,
            "read-only": True,
            "file": {"driver": "file", "filename": plain_path(disk.base), "locking": "off"},
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
    return ["-blockdev", json.dumps(node), "-device", json.dumps(device)]


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
