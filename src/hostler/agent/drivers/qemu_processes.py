"""QEMU's processes: started as orphans of another user, recognised later by what they are, ended surely.

A process is ours if its command line names the pid file in a folder of ours, it belongs to the user whom VMs run as,
and, where that was noted, pid and time of start agree. Signals go through descriptors of processes, so that a pid which
was given to another meanwhile is never hit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from hostler.agent.boot import boot_id
from hostler.agent.drivers.driver import DriverError
from hostler.agent.drivers.landlock import AllowedFiles, in_domain
from hostler.agent.drivers.qemu_folder import ProcessId, VmFolder
from hostler.agent.drivers.qemu_settings import Runner

__all__ = [
    "Seen", "ToolLimits", "end", "find_process", "guest_of", "is_alive", "open_process", "read_arguments", "read_state",
    "run_tool", "scan", "spawn", "vm_of", "wait_for_descriptor", "wait_for_end",
]  # fmt: skip

_PROC = Path("/proc")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
_LOOK_S = 0.02
_START_S = 30.0
_LONGEST_MOMENT = 100  # looks: on a busy machine a process may stand still just then
_LONGEST_TEXT = 2**21
_TERM_S = 3.0
_KILL_S = 10.0
_LONGEST_COMMAND = 2**20  # bytes that are read of a command line: ours are a few thousand long


class Seen(msgspec.Struct, frozen=True):
    """A process of QEMU, or of what is about to become one."""

    id: ProcessId
    uid: int
    arguments: list[str]

    @property
    def pid_file(self) -> str:
        """Return the pid file that its command line names."""
        return _after(self.arguments, "-pidfile")

    @property
    def guest(self) -> str:
        """Return the name of the guest on its command line."""
        return guest_of(self.arguments)

    @property
    def is_qemu(self) -> bool:
        """Say whether it runs QEMU already."""
        return Path(self.arguments[0]).name.startswith("qemu-system-")


def scan(is_user: Callable[[int], bool] = lambda uid: True) -> list[Seen]:
    """Return every process that runs QEMU, or has its arguments because it is about to; only those of some uids."""
    boot = boot_id()
    found = (_look(entry.name, boot, is_user) for entry in _PROC.iterdir() if entry.name.isdecimal())
    return [seen for seen in found if seen is not None]


def find_process(folder: VmFolder, runner: Runner, seen: Sequence[Seen] | None = None) -> Seen | None:
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


def vm_of(seen: Seen, vms: Path, runner_of: Callable[[VmFolder], Runner]) -> str:
    """Return the VM of ours whose process it is by its command line and user, folder or not; "" if it is another's."""
    folder = VmFolder(Path(seen.pid_file).parent.parent)
    return folder.vm if seen.is_qemu and folder.path.parent == vms and _is_of(seen, folder, runner_of(folder)) else ""


def is_alive(process: ProcessId) -> bool:
    """Say whether a process has not ended; one that only waits to be reaped has."""
    started = _started(process.pid)
    return started == process.started and boot_id() == process.boot


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a program may take, whatever the file that it reads makes of it. The kernel enforces all but the time."""

    timeout_s: float
    cpu_s: int
    memory_bytes: int  # of addresses
    file_bytes: int  # the longest file that it may write, its answer included


async def spawn(
    command: Sequence[str],
    folder: VmFolder,
    runner: Runner,
    *,
    file_limit: int,
    descriptors: Sequence[int] = (),
    allowed: AllowedFiles | None = None,
) -> ProcessId:
    """Start QEMU so that it outlives us, and return once it is known which process it is."""
    folder.write_process(None)
    folder.qmp.unlink(missing_ok=True)
    folder.pid.unlink(missing_ok=True)
    # Whatever its guest writes to the console while nobody trims it, no file of this VM grows beyond the limit.
    limit = ("prlimit", f"--fsize={file_limit}:{file_limit}")
    with folder.log.open("wb") as log:

        def start() -> None:
            subprocess.run(
                [*limit, "setsid", "--fork", "--", *command],
                check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env={"PATH": _PATH},
                # Signals that Python ignores stay ignored: one is sent for a file that would exceed its limit.
                umask=0o077, restore_signals=False, pass_fds=tuple(descriptors), **_switch(runner),
            )  # fmt: skip

        programs = allowed or AllowedFiles()
        await in_domain(AllowedFiles(read=(*programs.read, folder.keys), write=(*programs.write, folder.run)), start)
    process = await _recognise(folder, runner)
    folder.write_process(process)
    return process


async def _recognise(folder: VmFolder, runner: Runner) -> ProcessId:
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


async def end(process: ProcessId) -> None:
    """End a process: it may close its files first, but not take its time over it."""
    with _descriptor(process) as descriptor:
        if descriptor is None:
            return
        for number, patience_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _KILL_S)):
            try:
                signal.pidfd_send_signal(descriptor, number)
            except ProcessLookupError:
                return
            if await wait_for_descriptor(descriptor, patience_s):
                return
    raise DriverError(f"process {process.pid} does not end", hint="is its storage hung? see its state in /proc")


async def wait_for_end(process: ProcessId, timeout_s: float) -> bool:
    """Wait until a process has ended; say whether it has."""
    with _descriptor(process) as descriptor:
        return descriptor is None or await wait_for_descriptor(descriptor, timeout_s)


async def run_tool(
    command: Sequence[str],
    runner: Runner,
    limits: ToolLimits,
    *,
    allowed: AllowedFiles | None = None,
    descriptors: Sequence[int] = (),
) -> tuple[int, str, str]:
    """Run a program as a user of VMs within limits; return its exit code and what it said. TimeoutError.

    ``allowed``: the files that it may open; None for all that its user may.
    """
    limit = [
        "prlimit", f"--as={limits.memory_bytes}", f"--cpu={limits.cpu_s}", f"--fsize={limits.file_bytes}", "--core=0",
    ]  # fmt: skip
    # Into files, which have a limit: a program cannot fill our memory with what it says.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [*limit, "--", *command], stdin=subprocess.DEVNULL, stdout=out, stderr=error, cwd="/",
                env={"PATH": _PATH, "LC_ALL": "C"}, umask=0o077, pass_fds=tuple(descriptors), **_switch(runner),
            )  # fmt: skip

        process = start() if allowed is None else await in_domain(allowed, start)
        try:
            code = await asyncio.to_thread(process.wait, limits.timeout_s)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"{command[0]} took longer than {limits.timeout_s:g} s") from late
        finally:
            process.kill()  # nothing, where it has ended
            await asyncio.to_thread(process.wait)
        return code, _text_of(out), _text_of(error)


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_LONGEST_TEXT).decode(errors="replace")


def _switch(runner: Runner) -> dict[str, Any]:
    if not runner.must_switch:
        return {}
    return {"user": runner.uid, "group": runner.gid, "extra_groups": list(runner.groups)}


def _is_of(seen: Seen, folder: VmFolder, runner: Runner) -> bool:
    return seen.pid_file == str(folder.pid) and seen.guest == folder.vm and runner.is_user(seen.uid)


def _look(pid: str, boot: str, is_user: Callable[[int], bool] = lambda uid: True) -> Seen | None:
    """Look at one process, which may be anybody's, may end meanwhile and may call itself anything.

    To read a command line can take for ever: it lies in the memory of the process. Whose it is comes first.
    """
    try:
        uid = (_PROC / pid).stat().st_uid
        if not is_user(uid):
            return None
        arguments = read_arguments(int(pid))
        if "-pidfile" not in arguments and "qemu-system-" not in (arguments or [""])[0]:
            return None
        started = _started(int(pid))
    except (OSError, ValueError):
        return None
    if started is None:
        return None
    return Seen(ProcessId(int(pid), started, boot), uid, arguments)


def read_arguments(pid: int) -> list[str]:
    """Return the command line of a process, as far as it has a usual length; OSError if there is no such process."""
    with (_PROC / str(pid) / "cmdline").open("rb") as file:
        return [os.fsdecode(argument) for argument in file.read(_LONGEST_COMMAND).split(b"\0")[:-1]]


def guest_of(arguments: list[str]) -> str:
    """Return the name of the guest on a command line of QEMU; empty if it has none."""
    return _after(arguments, "-name").partition(",")[0].removeprefix("guest=")


def read_state(pid: int) -> tuple[str, int] | None:
    """Return a process's state (one letter, as ``ps`` shows it) and its tick of start; None if there is none."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode("ascii"), int(fields[19])
    except (OSError, ValueError, IndexError):  # it ended while it was read
        return None


def _started(pid: int) -> int | None:
    found = read_state(pid)
    return None if found is None or found[0] in ("Z", "X") else found[1]


def open_process(process: ProcessId) -> int | None:
    """Return a descriptor of a process, which the caller closes; None if the process has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # Looked at after it was opened: what agrees now is what the descriptor means.
    if is_alive(process):
        return descriptor
    os.close(descriptor)
    return None


async def wait_for_descriptor(descriptor: int, timeout_s: float) -> bool:
    """Wait until the process of a descriptor has ended; return whether it has."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(timeout_s):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
    return True


@contextmanager
def _descriptor(process: ProcessId) -> Iterator[int | None]:
    descriptor = open_process(process)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _after(arguments: list[str], option: str) -> str:
    try:
        return arguments[arguments.index(option) + 1]
    except (ValueError, IndexError):
        return ""
