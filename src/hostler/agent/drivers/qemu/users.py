"""Users of VMs: each VM of a host runs under a uid of its own, so that none may touch another's files or process.

The uid is derived from the VM's name, so hosts with shared storage usually choose the same one; the next free uid is
taken if another VM of this host has it. The record is the owner of the VM's ``run`` folder: root sets it, QEMU cannot
change it, and the next agent reads it. A running VM keeps its uid; one that has another (of an earlier version or
range) gets its new uid at the next boot.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hostler.agent.driver import BlockedError
from hostler.agent.drivers.machine.processes import VmUser
from hostler.agent.drivers.qemu.folder import VmFolder, vm_folders

__all__ = ["VmUsers"]

_HINT = "another process changed it: look at it, then remove it"


class VmUsers:
    """The users of one host's VMs. Without ``uids``, or without root, all VMs run as ``common``."""

    def __init__(self, common: VmUser, uids: range | None, vms: Path) -> None:
        self.common = common
        self._uids = uids if uids and common.must_switch else None
        self._vms = vms

    @property
    def are_separate(self) -> bool:
        """Say whether each VM has a uid of its own."""
        return self._uids is not None

    def runner(self, folder: VmFolder) -> VmUser:
        """Return the user of a VM. If its folder is gone, a running VM may have any of our uids."""
        uid = _owner(folder.run)
        if not self.common.must_switch or (not uid and self._uids is None):
            return self.common
        if not uid and self._uids is not None:
            return msgspec.structs.replace(self.common, uids=(self._uids.start, self._uids.stop))
        return msgspec.structs.replace(self.common, uid=uid)

    def uids_in_use(self) -> Callable[[int], bool]:
        """Return a predicate that is true for uids that VMs run as, or ran as under earlier settings."""
        found = {self.common.uid, *(_owner(folder.run) for folder in vm_folders(self._vms))}
        return lambda uid: uid in found or (self._uids is not None and uid in self._uids)

    def make_folder(self, folder: VmFolder, disks: Sequence[Path] = ()) -> VmUser:
        """Make the folder of a new VM, owned by the uid that it gets. ``disks`` may lie on shared storage already."""
        # Chosen and recorded without an await between, so that two VMs cannot choose the same.
        runner = msgspec.structs.replace(self.common, uid=self._choose(folder, disks))
        with _explained(folder, runner):
            folder.make(runner)
        return runner

    def settle(self, folder: VmFolder, disks: Sequence[Path] = ()) -> VmUser:
        """Give a stopped VM the uid that it should have, and return it; repeatable after a crash."""
        uid = _owner(folder.run)
        if not self.common.must_switch or (uid and self._is_good(uid, folder)):
            return self.runner(folder)
        runner = msgspec.structs.replace(self.common, uid=self._choose(folder, disks))
        with _explained(folder, runner):
            for own in (folder.run, folder.disks):
                os.chown(own, 0, 0)  # first: who had it must not exchange files while they are given away
                for path in own.iterdir():
                    _give(path, runner)
            os.chown(folder.disks, runner.uid, runner.gid)
            os.chown(folder.run, runner.uid, runner.gid)  # last: this is the record
        return runner

    def _is_good(self, uid: int, folder: VmFolder) -> bool:
        if self._uids is None:
            return uid == self.common.uid
        return uid in self._uids and uid not in self._taken(folder)

    def _choose(self, folder: VmFolder, disks: Sequence[Path]) -> int:
        if self._uids is None:
            return self.common.uid
        taken = self._taken(folder)
        digest = hashlib.sha256(folder.vm.encode()).digest()
        first = int.from_bytes(digest[:8], "big") % len(self._uids)
        # What another host gave the VM's disks comes first: with the same uid, storage needs no change of owner.
        for uid in (
            *_owners(disks),
            *(self._uids[(first + step) % len(self._uids)] for step in range(len(taken) + 64)),
        ):
            if uid in self._uids and uid not in taken and not _has_account(uid):
                return uid
        raise BlockedError(
            f"no uid is free for {folder.vm} in {self._uids[0]}-{self._uids[-1]}", hint="give a larger --vm-uids"
        )

    def _taken(self, folder: VmFolder) -> set[int]:
        return {_owner(other.run) for other in vm_folders(self._vms) if other.vm != folder.vm}


@contextmanager
def _explained(folder: VmFolder, runner: VmUser) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BlockedError(
            f"the folder of {folder.vm} cannot be given to the uid {runner.uid}: {error}",
            hint="does this machine or container have that uid? else give other --vm-uids, or none",
        ) from error


def _owner(path: Path) -> int:
    try:
        return path.lstat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _owners(paths: Iterable[Path]) -> list[int]:
    return [uid for uid in map(_owner, paths) if uid]


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _give(path: Path, runner: VmUser) -> None:
    """Give a file in a VM's folder away; sockets and the pid file are made again by the next QEMU."""
    found = path.lstat()
    if stat.S_ISSOCK(found.st_mode):
        path.unlink()
        return
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise BlockedError(f"{path} is no plain file", hint=_HINT)
    os.chown(path, runner.uid, runner.gid, follow_symlinks=False)
