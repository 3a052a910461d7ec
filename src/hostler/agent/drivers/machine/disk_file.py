"""Files of disks, opened by the agent: what was checked is what QEMU gets, as a descriptor and not as a name.

Others write to shared storage too, and QEMU itself to its folder. So a disk is a plain file with one name, looked at
before it is opened; nothing is opened through a link, and no device or pipe at all. The agent opens files with its own
rights and, if storage does not let root in (NFS with root_squash), with those of the VM's user.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from hostler.agent.driver import BlockedError
from hostler.agent.drivers.machine.processes import VmUser
from hostler.agent.drivers.machine.qcow2_header import Qcow2Header, read_header, why_not_overlay

__all__ = ["check_overlay", "create_disk", "give_disk", "open_disk", "open_image", "open_plain", "path_of"]

_Result = TypeVar("_Result")

_libc = ctypes.CDLL(None)


def open_disk(path: Path, runner: VmUser) -> int:
    """Open the disk of a VM to be read and written."""
    return _as_either(runner, path, lambda: open_plain(path, os.O_RDWR))


def open_image(path: Path, runner: VmUser) -> int:
    """Open an image to be read; unlike a disk it may have several names."""
    return _as_either(runner, path, lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))


def create_disk(path: Path, runner: VmUser) -> int:
    """Make an empty file that belongs to the VM's user; what an unfinished try left goes first."""

    def create() -> int:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if runner.must_switch and os.fstat(descriptor).st_uid != runner.uid:
            try:
                os.fchown(descriptor, runner.uid, runner.gid)
            except OSError:
                os.close(descriptor)
                path.unlink()
                raise
        return descriptor

    return _as_either(runner, path, create)


def check_overlay(descriptor: int, path: Path, *, base: str, sizes: tuple[int, ...] = ()) -> Qcow2Header:
    """Return the header of an open disk; reject one that we would not have made. Without ``sizes``, any size."""
    header = read_header(descriptor)
    reason = why_not_overlay(header, base=base, sizes=sizes or (0 if header is None else header.size_bytes,))
    if reason or header is None:
        hint = f"another host changed it? look: qemu-img info -U {path}; restore it, or delete the VM"
        raise BlockedError(f"{path} {reason}", hint=hint)
    return header


def give_disk(path: Path, runner: VmUser) -> None:
    """Make a disk on shared storage the VM's own on this host, if we may; QEMU gets it as a descriptor anyway."""
    if not runner.must_switch:
        return
    with _looked_at(path) as place, suppress(PermissionError):
        if os.fstat(place).st_uid != runner.uid:
            os.chown(path_of(place), runner.uid, runner.gid)


def path_of(descriptor: int) -> str:
    """Return a path at which a process that has a descriptor opens the same file once more."""
    return f"/proc/self/fd/{descriptor}"


def open_plain(path: Path, flags: int) -> int:
    """Open a plain file with one name, not through a link, with our own rights."""
    with _looked_at(path) as place:
        return os.open(path_of(place), flags | os.O_CLOEXEC)


@contextmanager
def _looked_at(path: Path) -> Iterator[int]:
    """Yield a descriptor that only says which file it is, once that is known to be a plain one."""
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(place)
        hint = f"another host put it there? look: ls -l {path}; restore the disk, or delete the VM"
        if not stat.S_ISREG(found.st_mode):
            raise BlockedError(f"{path} is no plain file", hint=hint)
        if found.st_nlink != 1:
            raise BlockedError(f"{path} has a second name", hint=hint)
        yield place
    finally:
        os.close(place)


def _as_either(runner: VmUser, path: Path, work: Callable[[], _Result]) -> _Result:
    """Work on a file with our rights, or with those of the VM's user if ours are not enough."""
    try:
        try:
            return work()
        except PermissionError:
            if not runner.must_switch:
                raise
        with _file_rights_of(runner):
            return work()
    except OSError as error:
        raise BlockedError(
            f"{path} cannot be opened: {error.strerror}", hint="is its storage mounted and writable? it is tried again"
        ) from error


@contextmanager
def _file_rights_of(runner: VmUser) -> Iterator[None]:
    # These two calls concern this thread alone, so no other work of the agent is affected.
    _libc.setfsgid(runner.gid)
    _libc.setfsuid(runner.uid)
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())
