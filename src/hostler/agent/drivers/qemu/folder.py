"""The folder of one VM: what it is, in a file that only we write, and beside it what QEMU may write.

A folder without that file is no VM: either it was never finished, or it is being removed. QEMU runs as another user
and owns ``run`` and ``disks`` only, so nothing that it does there changes what we believe of the VM.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from hostler.agent.driver import DriverError, Landing, PermanentError
from hostler.agent.drivers.machine.processes import ProcessId, VmUser
from hostler.agent.messages import Order
from hostler.runtime.files import open_regular, sync_folder, write_durably, write_file

__all__ = ["VmFile", "VmFolder", "folder_of", "images_of", "vm_folders"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class VmFile(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a VM, which must survive the agent."""

    order: Order
    stage: Literal["here", "landing", "left"] = "here"
    secret: str = ""  # opens the landing, while it is one and for a repeated last word after it
    is_arriving: bool = False  # the last word was heard: it runs here, or is to be let run
    sending: Landing | None = None  # where it is being sent, or was
    is_taken: bool = False  # the other side said that it runs there
    growing: tuple[int, ...] = ()  # sizes in bytes that the disks are being brought to


class VmFolder:
    """Paths of one VM, and its two files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.vm = path.name
        self.run = path / "run"
        self.disks = path / "disks"
        self.keys = path / "keys"
        self.qmp = self.run / "qmp"
        self.pid = self.run / "pid"
        self.console = self.run / "console"
        self.log = path / "qemu.log"
        self._file = path / "vm.json"
        self._process = path / "process.json"

    @property
    def is_vm(self) -> bool:
        """Say whether there is a VM, be its record readable or not."""
        return self._file.exists()

    def read(self) -> VmFile | None:
        """Return the record of the VM; None if there is no VM."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=VmFile)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except msgspec.DecodeError as error:
            raise DriverError(
                f"the record of {self.vm} is damaged: {self._file}", hint="look at it, then remove its folder"
            ) from error

    def write(self, file: VmFile) -> None:
        """Write the record durably."""
        write_durably(self._file, msgspec.json.encode(file))
        sync_folder(self.path)

    def read_process(self) -> ProcessId | None:
        """Return the process that was started last, if that is known."""
        try:
            return msgspec.json.decode(self._process.read_bytes(), type=ProcessId)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write_process(self, process: ProcessId | None) -> None:
        """Note the process. It need not be durable: after a power cut none runs."""
        if process is None:
            self._process.unlink(missing_ok=True)
            return
        if not self.path.is_dir():
            return  # the folder was removed while its VM runs
        write_file(self._process, msgspec.json.encode(process))

    def make(self, runner: VmUser) -> None:
        """Make the folders, private to those who need them; what an unfinished try left goes first."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(mode=0o711)
        self.keys.mkdir(mode=0o711)
        for own in (self.run, self.disks):
            own.mkdir(mode=0o700)
        if runner.must_switch:
            for folder in (self.path, self.keys):
                folder.chmod(0o711)  # whatever the umask: QEMU has to get through
            for own in (self.run, self.disks):
                os.chown(own, runner.uid, runner.gid)

    def remove(self) -> None:
        """Remove the folder; after a crash half-way it is no VM any more."""
        self._file.unlink(missing_ok=True)
        if self.path.exists():
            sync_folder(self.path)
        shutil.rmtree(self.path, ignore_errors=True)

    def last_words(self) -> str:
        """Return QEMU's last output."""
        try:
            lines = self.log.read_text(errors="replace").split("\n")
        except FileNotFoundError:
            return ""
        return " / ".join(line.strip() for line in lines[-6:] if line.strip())[-500:]

    def trim_console(self, limit: int) -> None:
        """Keep the end of a console that grew too long. QEMU appends, so what it writes meanwhile is not lost."""
        try:
            descriptor = open_regular(self.console, os.O_RDWR)
        except OSError:
            return
        with os.fdopen(descriptor, "r+b") as file:
            found = os.fstat(file.fileno())
            # The folder is QEMU's: another name for a file elsewhere is none of ours to write to.
            if found.st_nlink != 1 or found.st_size <= 2 * limit:
                return
            file.seek(-limit, os.SEEK_END)
            end = file.read(limit)
            file.truncate(0)
            file.seek(0)
            file.write(end)


def folder_of(vms: Path, vm: str) -> VmFolder:
    """Return the folder of a VM; reject a name that could lead out of it, or into an option of QEMU."""
    if not _NAME.fullmatch(vm):
        raise PermanentError(
            f"{vm[:80]!r} cannot be the name of a VM here", hint="letters, digits, dots, dashes; up to 64 of them"
        )
    return VmFolder(vms / vm)


def vm_folders(vms: Path) -> Iterator[VmFolder]:
    """Go through all folders that could be VMs."""
    for path in sorted(vms.iterdir()) if vms.is_dir() else ():
        if _NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            yield VmFolder(path)


def images_of(vms: Path) -> set[str]:
    """Return the hashes of all fetched images under disks of VMs; DriverError if a VM's are unknown."""
    files = [folder.read() for folder in vm_folders(vms)]
    disks = [disk for file in files if file is not None for disk in file.order.disks]
    return {disk.image.sha256 for disk in disks if disk.image is not None and disk.image.url}
