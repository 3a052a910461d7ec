"""Processes of this machine: their identity, their user, how they are ended, and resource limits of tools.

A process is identified by its pid, its start tick and the boot. Signals go through descriptors of processes, so a
reused pid is never hit. A foreign process may have any name and arguments: what is read of it is bounded.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from hostler.agent.boot import boot_id
from hostler.agent.driver import DriverError
from hostler.agent.drivers.machine.landlock import AllowedFiles, in_domain

__all__ = [
    "PROGRAM_PATH", "ProcessId", "ToolLimits", "VmUser", "end", "guest_of", "is_alive", "open_process",
    "read_arguments", "read_count", "read_option", "read_start", "read_state", "run_tool", "user_arguments",
    "wait_for_descriptor", "wait_for_end",
]  # fmt: skip

_PROC = Path("/proc")
PROGRAM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
_LONGEST_TEXT = 2**21
_TERM_S = 3.0
_KILL_S = 10.0
_LONGEST_COMMAND = 2**20  # bytes that are read of a command line: ours are a few thousand long
_LONGEST_NUMBER = 20  # digits: 2^64 has as many


class ProcessId(msgspec.Struct, frozen=True):
    """The identity of a process: a pid may be reused, a pid with its start tick in this boot is not."""

    pid: int
    started: int
    boot: str


class VmUser(msgspec.Struct, frozen=True):
    """The user that VMs run as; ``must_switch`` if that is not our own user."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    must_switch: bool = False
    uids: tuple[int, int] = (0, 0)  # from, up to: it may have run as one of these too, as its record is gone

    def is_user(self, uid: int) -> bool:
        """Say whether a process of this uid may be the VM's."""
        return uid == self.uid or uid in range(*self.uids)


class ToolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits of a program, whatever file it reads. The kernel enforces all but the time."""

    timeout_s: float
    cpu_s: int
    memory_bytes: int  # of addresses
    file_bytes: int  # the longest file that it may write, its answer included


def is_alive(process: ProcessId) -> bool:
    """Say whether a process has not ended; one that only waits to be reaped has."""
    started = read_start(process.pid)
    return started == process.started and boot_id() == process.boot


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


async def run_tool(
    command: Sequence[str],
    runner: VmUser,
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
                env={"PATH": PROGRAM_PATH, "LC_ALL": "C"}, umask=0o077, pass_fds=tuple(descriptors),
                **user_arguments(runner),
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


def user_arguments(runner: VmUser) -> dict[str, Any]:
    """Return the arguments of ``subprocess`` that start a program as this user."""
    if not runner.must_switch:
        return {}
    return {"user": runner.uid, "group": runner.gid, "extra_groups": list(runner.groups)}


def read_arguments(pid: int) -> list[str]:
    """Return the command line of a process, as far as it has a usual length; OSError if there is no such process."""
    with (_PROC / str(pid) / "cmdline").open("rb") as file:
        return [os.fsdecode(argument) for argument in file.read(_LONGEST_COMMAND).split(b"\0")[:-1]]


def read_option(arguments: list[str], option: str) -> str:
    """Return what follows an option on a command line; empty if nothing does."""
    try:
        return arguments[arguments.index(option) + 1]
    except (ValueError, IndexError):
        return ""


def guest_of(arguments: list[str]) -> str:
    """Return the name of the guest on a command line of QEMU; empty if it has none."""
    return read_option(arguments, "-name").partition(",")[0].removeprefix("guest=")


def read_state(pid: int) -> tuple[str, int] | None:
    """Return a process's state (one letter, as ``ps`` shows it) and its tick of start; None if there is none."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode("ascii"), int(fields[19])
    except (OSError, ValueError, IndexError):  # it ended while it was read
        return None


def read_start(pid: int) -> int | None:
    """Return the tick at which a process started; None if it has ended, even if it is not reaped yet."""
    found = read_state(pid)
    return None if found is None or found[0] in ("Z", "X") else found[1]


def read_count(text: str, *, most: int) -> int | None:
    """Return the number that a foreign text holds; None for what is no number of ASCII digits up to ``most``."""
    if not 0 < len(text) <= _LONGEST_NUMBER or not (text.isascii() and text.isdecimal()):
        return None  # Python itself rejects numbers of more than 4,300 digits, by an exception
    number = int(text)
    return number if number <= most else None
