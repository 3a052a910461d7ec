"""QEMU's processes: started as orphans of another user, and recognized later by what they are.

A process is ours if its command line names the pid file in a folder of ours, it belongs to the user whom VMs run as,
and pid and time of start agree with what was noted, if they were noted.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hostler.agent.boot import boot_id
from hostler.agent.driver import DriverError
from hostler.agent.drivers.machine.landlock import AllowedFiles, in_domain
from hostler.agent.drivers.machine.processes import (
    PROGRAM_PATH,
    ProcessId,
    VmUser,
    guest_of,
    read_arguments,
    read_option,
    read_start,
    user_arguments,
)
from hostler.agent.drivers.qemu.folder import VmFolder

__all__ = ["QemuProcess", "find_process", "scan", "spawn", "vm_of"]

_LOOK_S = 0.02
_START_S = 30.0
_LONGEST_MOMENT = 100  # looks: on a busy machine a process may stand still just then


class QemuProcess(msgspec.Struct, frozen=True):
    """A process of QEMU, or one that is about to become QEMU."""

    id: ProcessId
    uid: int
    arguments: list[str]

    @property
    def pid_file(self) -> str:
        """Return the pid file that its command line names."""
        return read_option(self.arguments, "-pidfile")

    @property
    def guest(self) -> str:
        """Return the name of the guest on its command line."""
        return guest_of(self.arguments)

    @property
    def is_qemu(self) -> bool:
        """Say whether it runs QEMU already."""
        return Path(self.arguments[0]).name.startswith("qemu-system-")


def scan(is_user: Callable[[int], bool] = lambda uid: True) -> list[QemuProcess]:
    """Return every process that runs QEMU, or has its arguments because it is about to; only those of some uids."""
    boot = boot_id()
    found = (_look(entry.name, boot, is_user) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [seen for seen in found if seen is not None]


def find_process(folder: VmFolder, runner: VmUser, seen: Sequence[QemuProcess] | None = None) -> QemuProcess | None:
    """Return the process of a VM. One that was noted must agree; one that was not is noted now: so it is adopted."""
    noted = folder.read_process()
    if noted is not None and seen is None:
        now = _look(str(noted.pid), boot_id())
        return now if now is not None and now.id == noted and _is_of(now, folder, runner) else None
    for one in scan() if seen is None else seen:
        if one.is_qemu and _is_of(one, folder, runner) and noted in (None, one.id):
            if noted is None:
                folder.write_process(one.id)
            return one
    return None


def vm_of(seen: QemuProcess, vms: Path, runner_of: Callable[[VmFolder], VmUser]) -> str:
    """Return the VM of ours whose process it is by its command line and user, folder or not; "" if it is another's."""
    folder = VmFolder(Path(seen.pid_file).parent.parent)
    return folder.vm if seen.is_qemu and folder.path.parent == vms and _is_of(seen, folder, runner_of(folder)) else ""


async def spawn(
    command: Sequence[str],
    folder: VmFolder,
    runner: VmUser,
    *,
    file_limit: int,
    descriptors: Sequence[int] = (),
    allowed: AllowedFiles | None = None,
) -> ProcessId:
    """Start QEMU so that it outlives us, and return once it is known which process it is."""
    folder.write_process(None)
    folder.qmp.unlink(missing_ok=True)
    folder.pid.unlink(missing_ok=True)
    # Whatever its guest writes to the console while it is not trimmed, no file of this VM grows beyond the limit.
    limit = ("prlimit", f"--fsize={file_limit}:{file_limit}")
    with folder.log.open("wb") as log:

        def start() -> None:
            subprocess.run(
                [*limit, "setsid", "--fork", "--", *command],
                check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env={"PATH": PROGRAM_PATH},
                # Signals that Python ignores stay ignored: one is sent for a file that would exceed its limit.
                umask=0o077, restore_signals=False, pass_fds=tuple(descriptors), **user_arguments(runner),
            )  # fmt: skip

        programs = allowed or AllowedFiles()
        await in_domain(AllowedFiles(read=(*programs.read, folder.keys), write=(*programs.write, folder.run)), start)
    process = await _recognise(folder, runner)
    folder.write_process(process)
    return process


async def _recognise(folder: VmFolder, runner: VmUser) -> ProcessId:
    """Wait until the process that was started runs QEMU."""
    absent = 0
    async with asyncio.timeout(_START_S):
        while True:
            holders = [one for one in await asyncio.to_thread(scan) if _is_of(one, folder, runner)]
            if holders and holders[0].is_qemu:
                return holders[0].id
            # For a moment, while it becomes another program, a process has no arguments at all.
            absent = 0 if holders else absent + 1
            if absent > _LONGEST_MOMENT:
                raise DriverError(
                    f"QEMU did not start for {folder.vm}: {folder.last_words()}", hint=f"see {folder.log}"
                )
            await asyncio.sleep(_LOOK_S)


def _is_of(seen: QemuProcess, folder: VmFolder, runner: VmUser) -> bool:
    return seen.pid_file == str(folder.pid) and seen.guest == folder.vm and runner.is_user(seen.uid)


def _look(pid: str, boot: str, is_user: Callable[[int], bool] = lambda uid: True) -> QemuProcess | None:
    """Look at one process, which may be anybody's, may end meanwhile and may call itself anything.

    To read a command line can take for ever: it lies in the memory of the process. Whose it is comes first.
    """
    try:
        uid = Path("/proc", pid).stat().st_uid
        if not is_user(uid):
            return None
        arguments = read_arguments(int(pid))
        if "-pidfile" not in arguments and "qemu-system-" not in (arguments or [""])[0]:
            return None
        started = read_start(int(pid))
    except (OSError, ValueError):
        return None
    if started is None:
        return None
    return QemuProcess(ProcessId(int(pid), started, boot), uid, arguments)
