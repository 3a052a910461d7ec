"""The settings of the ``qemu`` driver, and checks that run before any VM is touched."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path
from typing import Literal

import msgspec

from hostler.agent.drivers.machine.processes import VmUser
from hostler.agent.drivers.qemu.images import read_origin
from hostler.errors import InputError

__all__ = ["QemuSettings", "check", "runner_of", "uids_of"]

# A unix socket's path ends at 107 bytes; a VM's name takes up to 64 of them, and the folders around it the rest.
_LONGEST_FOLDER = 107 - len("/vms//run/qmp") - 64
_FIRST_UID, _LAST_UID = 1000, 2**32 - 3  # below are accounts of the system; the last two mean no user
_BRIDGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")


class QemuSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. ``folder`` holds all of the driver's own: VMs, local disks, cached images."""

    folder: Path
    image_roots: tuple[Path, ...] = ()  # paths of images, kernels and initial RAM disks lie below one of these
    storages: tuple[tuple[str, Path], ...] = ()  # shared storage by name: the same files at every host that names it
    bridges: tuple[str, ...] = ()  # bridges that orders may name; making taps on them needs root
    user: str = ""  # whom VMs run as; empty: the agent's own user, which must not be root then
    uids: str = "1900000000-1901048575"  # each VM gets a uid of its own from these, if the agent is root; none: no
    acceleration: Literal["auto", "kvm", "tcg"] = "auto"
    landing_address: str = "127.0.0.1"  # where other hosts reach this one for live migration
    landing_port: int = 0  # 0: any that is free, and the same again afterwards
    console_bytes: int = 2**20  # what is kept of a serial console
    image_origins: tuple[str, ...] = ()  # images may be fetched from below these addresses; none: from nowhere
    largest_image_bytes: int = 2**36
    image_cache_bytes: int = 2**36  # what all fetched images may take
    program: str = "qemu-system-x86_64"
    image_program: str = "qemu-img"
    inspect_s: float = 10.0  # how long qemu-img may look at an image


def check(settings: QemuSettings) -> None:
    """Reject settings that cannot work, or that would weaken the confinement of VMs."""
    for path in (settings.folder, *settings.image_roots, *(path for _, path in settings.storages)):
        if not path.is_absolute() or any(char in str(path) for char in ",\n\0"):
            raise InputError(f"{str(path)!r} cannot be a folder of VMs", hint="write an absolute path without commas")
    if len(os.fsencode(settings.folder)) > _LONGEST_FOLDER:
        raise InputError(
            f"{settings.folder} is too long: sockets in it would have no room for their names",
            hint=f"take a folder of at most {_LONGEST_FOLDER} bytes",
        )
    uids_of(settings)
    for bridge in settings.bridges:
        if not _BRIDGE.fullmatch(bridge):
            raise InputError(f"{bridge!r} cannot be the name of a bridge", hint="see `ip link show type bridge`")
    for origin in settings.image_origins:
        read_origin(origin)


def uids_of(settings: QemuSettings) -> range | None:
    """Return the uids that VMs get, one each; None if all of them run as one user."""
    if settings.uids == "none":
        return None
    match = re.fullmatch(r"(\d{1,10})-(\d{1,10})", settings.uids)
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not _FIRST_UID <= first <= last <= _LAST_UID:
        raise InputError(
            f"{settings.uids[:80]!r} is no range of uids for VMs",
            hint=f"--vm-uids FIRST-LAST, between {_FIRST_UID} and {_LAST_UID}, with no accounts of people; or none",
        )
    return range(first, last + 1)


def runner_of(settings: QemuSettings) -> VmUser:
    """Find the user of VMs: never root, and only the agent's own user if it cannot switch."""
    own = os.getuid()
    if not settings.user:
        if own == 0:
            raise InputError(
                "VMs do not run as root and no other user is set",
                hint="useradd --system --shell /usr/sbin/nologin hostler-vms; then give --vm-user hostler-vms",
            )
        return VmUser(own, os.getgid(), tuple(os.getgroups()))
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
    return VmUser(entry.pw_uid, entry.pw_gid, groups, must_switch=own == 0)
