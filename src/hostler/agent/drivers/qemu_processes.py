"""QEMU's processes: started as orphans of another user, recognised later by what they are, ended surely.

A process is ours if its command line names the pid file in a folder of ours, it belongs to the user whom VMs run as,
and, where that was noted, pid and time of start agree. Signals go through descriptors of processes, so that a pid which
was given to another meanwhile is never hit.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent.boot import boot_id
from hostler.agent.drivers.driver import DriverError
from hostler.agent.drivers.qemu_folder import ProcessId, VmFolder
from hostler.agent.drivers.qemu_settings import Runner

__all__ = ["Seen", "end", "find_process", "is_alive", "run_tool", "scan", "spawn", "wait_for_end"]

_PROC = Path("/proc")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
_LOOK_S = 0.02
_START_S = 30.0
_LONGEST_MOMENT = 100  # looks: on a busy machine a process may stand still just then
_TERM_S = 3.0
_KILL_S = 10.0


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
        """Return the VM's name that its command line names."""
        name = _after(self.arguments, "-name").partition(",")[0]
        return name.removeprefix("guest=")

    @property
    def is_qemu(self) -> bool:
        """Say whether it runs QEMU already."""
        return Path(self.arguments[0]).name.startswith("qemu-system-")


def scan() -> list[Seen]:
    """Return every process that runs QEMU, or has its arguments because it is about to."""
    boot = boot_id()
    found = (_look(entry.name, boot) for entry in _PROC.iterdir() if entry.name.isdecimal())
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


def is_alive(process: ProcessId) -> bool:
    """Say whether a process has not ended; one that only waits to be reaped has."""
    started = _started(process.pid)
    return started == process.started and boot_id() == process.boot


async def spawn(
    command: Sequence[str], folder: VmFolder, runner: Runner, *, file_limit: int, descriptors: Sequence[int] = ()
) -> ProcessId:
    """Start QEMU so that it outlives us, and return once it is known which process it is."""
    folder.write_process(None)
    folder.qmp.unlink(missing_ok=True)
    folder.pid.unlink(missing_ok=True)
    # Whatever its guest writes to the console while nobody trims it, no file of this VM grows beyond the limit.
    limit = ("prlimit", f"--fsize={file_limit}:{file_limit}")
    with folder.log.open("wb") as log:
        starter = await asyncio.create_subprocess_exec(
            *limit, "setsid", "--fork", "--", *command,
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env={"PATH": _PATH}, umask=0o077,
            # Signals that Python ignores stay ignored: one is sent for a file that would exceed its limit.
            restore_signals=False, pass_fds=tuple(descriptors), **_switch(runner),
        )  # fmt: skip
        await starter.wait()
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
            if await _wait(descriptor, patience_s):
                return
    raise DriverError(f"process {process.pid} does not end", hint="is its storage hung? see its state in /proc")


async def wait_for_end(process: ProcessId, timeout_s: float) -> bool:
    """Wait until a process has ended; say whether it has."""
    with _descriptor(process) as descriptor:
        return descriptor is None or await _wait(descriptor, timeout_s)


async def run_tool(command: Sequence[str], runner: Runner, *, timeout_s: float) -> tuple[int, str, str]:
    """Run a program as the user whom VMs run as; return its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd="/", env={"PATH": _PATH, "LC_ALL": "C"}, umask=0o077, **_switch(runner),
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout_s):
            out, error = await process.communicate()
    except BaseException:
        process.kill()
        await process.communicate()
        raise
    return process.returncode or 0, out.decode(errors="replace"), error.decode(errors="replace")


def _switch(runner: Runner) -> dict[str, Any]:
    if not runner.must_switch:
        return {}
    return {"user": runner.uid, "group": runner.gid, "extra_groups": list(runner.groups)}


def _is_of(seen: Seen, folder: VmFolder, runner: Runner) -> bool:
    return seen.pid_file == str(folder.pid) and seen.guest == folder.vm and seen.uid == runner.uid


def _look(pid: str, boot: str) -> Seen | None:
    try:
        arguments = (_PROC / pid / "cmdline").read_bytes().split(b"\0")[:-1]
        if b"-pidfile" not in arguments and b"qemu-system-" not in (arguments or [b""])[0]:
            return None
        started = _started(int(pid))
        uid = (_PROC / pid).stat().st_uid
    except (OSError, ValueError):
        return None
    if started is None:
        return None
    return Seen(ProcessId(int(pid), started, boot), uid, [os.fsdecode(argument) for argument in arguments])


def _started(pid: int) -> int | None:
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


@contextmanager
def _descriptor(process: ProcessId) -> Iterator[int | None]:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        # Looked at after it was opened: what agrees now is what the descriptor means.
        yield descriptor if is_alive(process) else None
    finally:
        os.close(descriptor)


async def _wait(descriptor: int, timeout_s: float) -> bool:
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


def _after(arguments: list[str], option: str) -> str:
    try:
        return arguments[arguments.index(option) + 1]
    except (ValueError, IndexError):
        return ""
