"""Landlock: a process that may open only the files that we name, whatever its user may, and no TCP connection.

QEMU opens files that a disk's header names. A header can change after it was checked, on storage that other hosts
write to. So QEMU and qemu-img start in a domain in which such a name leads nowhere: they have their program folders, a
few devices and the VM's own folder. Disks come as open descriptors, which a domain does not restrict.

A domain belongs to a thread and to what that thread starts. Each is made in a thread of its own that ends afterwards,
so the agent itself stays free. Needs Linux 5.13 and no privileges (https://docs.kernel.org/userspace-api/landlock.html).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import stat
import struct
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

__all__ = ["AllowedFiles", "abi_version", "in_domain", "program_folders"]

_Result = TypeVar("_Result")

# The same numbers on every architecture: asm-generic/unistd.h, linux/landlock.h, linux/prctl.h.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_REGULAR, _MAKE_SOCKET, _TRUNCATE = 1 << 5, 1 << 8, 1 << 9, 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _READ_FILE | _READ_DIR | _WRITE_FILE | _REMOVE_FILE | _MAKE_REGULAR | _MAKE_SOCKET | _TRUNCATE
# Rights by ABI: the first has 13, the second adds REFER, the third TRUNCATE, the fifth IOCTL_DEV (left free: KVM).
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1}
_ALL_RIGHTS = (1 << 15) - 1
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_FIRST_WITH_NETWORK = 4  # the ABI of Linux 6.7

_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/nix/store", "/gnu/store")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/kvm")

_libc = ctypes.CDLL(None, use_errno=True)


class AllowedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a domain leaves open beside programs and devices: files, or folders with all in them."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()


def abi_version() -> int:
    """Return which version of Landlock the kernel has; 0 for none."""
    return max(int(_libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)), 0)


def program_folders(program: str) -> tuple[Path, ...]:
    """Return the folders that a program needs beside those of the system: it may be installed in one of its own."""
    found = shutil.which(program)
    if found is None:
        return ()
    folder = Path(found).resolve().parent
    # Such as /opt/qemu, with bin and share in it.
    return (folder.parent,) if folder.name in ("bin", "sbin") and folder.parent != Path("/") else (folder,)


async def in_domain(allowed: AllowedFiles, work: Callable[[], _Result]) -> _Result:
    """Do something that starts a process in a domain; without Landlock, do it as it is."""
    if not abi_version():
        return await asyncio.to_thread(work)
    with ThreadPoolExecutor(max_workers=1) as thread:

        def enter_and_work() -> _Result:
            _enter(allowed)
            return work()

        return await asyncio.wrap_future(thread.submit(enter_and_work))


def _enter(allowed: AllowedFiles) -> None:
    """Restrict this thread, for ever."""
    handled = _RIGHTS.get(abi_version(), _ALL_RIGHTS)
    # No rule gives these back: a header can name a server as well as a file. Migrations come as open descriptors.
    network = _BIND_TCP | _CONNECT_TCP if abi_version() >= _FIRST_WITH_NETWORK else None
    attributes = struct.pack("=Q", handled) if network is None else struct.pack("=QQ", handled, network)
    ruleset = _check(_libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        _add(ruleset, (*map(Path, _SYSTEM), *allowed.read), _READ & handled)
        _add(ruleset, (*map(Path, _DEVICES), *allowed.write), _WRITE & handled)
        _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _add(ruleset: int, paths: Iterable[Path], rights: int) -> None:
    for path in paths:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # not on this machine
            continue
        try:
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            rule = struct.pack("=Qi", rights if is_folder else rights & _OF_FILES, descriptor)
            _check(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
        finally:
            os.close(descriptor)


def _check(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return answer
