"""What can be set about the ``qemu`` driver of a host, and the checks that come before any VM is touched."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path
from typing import Literal

import msgspec

from hostler.agent.drivers.qemu_origins import read_origin
from hostler.errors import InputError

__all__ = ["QemuSettings", "Runner", "check", "runner_of"]

# A unix socket's path ends at 107 bytes; a VM's name takes up to 64 of them, and the folders around it the rest.
_LONGEST_FOLDER = 107 - len("/vms//run/qmp") - 64
_BRIDGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")


class QemuSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. ``folder`` holds all of the driver's own: VMs, local disks, cached images."""

    folder: Path
    image_roots: tuple[Path, ...] = ()  # paths of images, kernels and initial RAM disks lie below one of these
    storages: tuple[tuple[str, Path], ...] = ()  # shared storage by name: the same files at every host that names it
    bridges: tuple[str, ...] = ()  # bridges that orders may name; making taps on them needs root
    user: str = ""  # whom VMs run as; empty: the agent's own user, which must not be root then
    acceleration: Literal["auto", "kvm", "tcg"] = "auto"
    landing_address: str = "127.0.0.1"  # where other hosts reach this one for live migration
    landing_port: int = 0  # 0: any that is free, and the same again afterwards
    console_bytes: int = 2**20  # what is kept of a serial console
    image_origins: tuple[str, ...] = ()  # images may be fetched from below these addresses; none: from nowhere
    largest_image_bytes: int = 2**36
    image_cache_bytes: int = 2**36  # what all fetched images may take
    program: str = "qemu-system-x86_64"
    image_program: str = "qemu-img"


class Runner(msgspec.Struct, frozen=True):
    """Whom VMs run as; ``must_switch`` where that is not who we are."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    must_switch: bool = False


def check(settings: QemuSettings) -> None:
    """Refuse settings that could never work, or that would weaken what VMs are confined by."""
    for path in (settings.folder, *settings.image_roots, *(path for _, path in settings.storages)):
        if not path.is_absolute() or any(char in str(path) for char in ",\n\0"):
            raise InputError(f"{str(path)!r} cannot be a folder of VMs", hint="write an absolute path without commas")
    if len(os.fsencode(settings.folder)) > _LONGEST_FOLDER:
        raise InputError(
            f"{settings.folder} is too long: sockets in it would have no room for their names",
            hint=f"take a folder of at most {_LONGEST_FOLDER} bytes",
        )
    for bridge in settings.bridges:
        if not _BRIDGE.fullmatch(bridge):
            raise InputError(f"{bridge!r} cannot be the name of a bridge", hint="see `ip link show type bridge`")
    for origin in settings.image_origins:
        read_origin(origin)


def runner_of(settings: QemuSettings) -> Runner:
    """Find whom VMs run as: never root, and nobody but ourselves where we may not switch."""
    own = os.getuid()
    if not settings.user:
        if own == 0:
            raise InputError(
                "VMs do not run as root and no other user is set",
                hint="useradd --system --shell /usr/sbin/nologin hostler-vms; then give --vm-user hostler-vms",
            )
        return Runner(own, os.getgid(), tuple(os.getgroups()))
    try:
        entry = pwd.getpwuid(int(settings.user)) if settings.user.isdecimal() else pwd.getpwnam(settings.user)
    except KeyError as error:
        raise InputError(
            f"there is no user {settings.user} to run VMs as", hint="make it, or name another by --vm-user"
        ) from error
    if entry.pw_uid == 0:
        raise InputError("VMs do not run as root", hint="name another user by --vm-user")
    if own not in (0, entry.pw_uid):
        raise InputError(
            f"only root may run VMs as {settings.user}", hint="leave --vm-user out, or run the agent as root"
        )
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Runner(entry.pw_uid, entry.pw_gid, groups, must_switch=own == 0)
