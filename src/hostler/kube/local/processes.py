"""Start programs that outlive us, find them again, and end them; never signal a foreign process.

Each has a note with its pid, its start time and the boot id (``launch`` writes it). A pid alone proves nothing: another
process may have it by now. Signals go through a pidfd that is opened before the start time is compared. Used by
``supervision``.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

__all__ = ["ProcessNote", "end", "find", "is_alive", "note_of", "start", "started_at_s"]

_LAUNCHER = Path(__file__).with_name("launch.py")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LOCK_AT = 3  # the descriptor that the launcher expects
_NEVER_S = 30.0  # time for the launcher to write its note, on any machine


class ProcessNote(msgspec.Struct, frozen=True):
    """The identity of a process: its pid, its start time, and the boot id of the machine."""

    pid: int
    start_ticks: int
    boot: str
    command: tuple[str, ...] = ()


def start(
    command: Sequence[str], *, note: Path, log: Path, lock: int, environment: Mapping[str, str], dies_with_us: bool
) -> int:
    """Start a program in a session of its own, and return its pid when its note is written.

    Its output goes to ``log``; an earlier log is kept beside it.
    """
    if log.exists():
        log.rename(log.with_suffix(".previous.log"))
    note.unlink(missing_ok=True)
    words = [sys.executable, "-I", "-S", str(_LAUNCHER), str(note), "die" if dies_with_us else "live", *command]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        (os.POSIX_SPAWN_DUP2, lock, _LOCK_AT),
    ]
    # Not subprocess: its objects complain when they are dropped while the process lives, which is the purpose here.
    pid = os.posix_spawn(sys.executable, words, dict(environment), file_actions=actions, setsid=True)
    deadline = time.monotonic() + _NEVER_S
    while not note.exists() and time.monotonic() < deadline and _reap_child(pid) is False:
        time.sleep(0.005)
    return pid


def note_of(path: Path) -> ProcessNote | None:
    """Read a note; None if it is missing or unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProcessNote)
    except (OSError, msgspec.MsgspecError):
        return None


def find(path: Path) -> ProcessNote | None:
    """Return the note of a process that still runs, otherwise None."""
    note = note_of(path)
    return note if note is not None and is_alive(note) else None


def is_alive(note: ProcessNote) -> bool:
    """Return whether exactly this process runs; a zombie does not."""
    return note.boot == _boot() and _start_ticks(note.pid) == note.start_ticks


def started_at_s(note: ProcessNote) -> float:
    """Return when the process was started, in seconds since 1970."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + note.start_ticks / _TICKS_PER_S
    return 0.0


def end(note: ProcessNote, *, patience_s: float) -> None:
    """Ask a process to end, and kill it after this time; 0 kills it at once."""
    try:
        handle = os.pidfd_open(note.pid)
    except ProcessLookupError:
        return
    try:
        if not is_alive(note):  # checked after opening: the handle refers to this process even if the pid is reused
            return
        if patience_s > 0:
            _signal(handle, signal.SIGTERM)
            if _has_ended(handle, patience_s):
                return
        _signal(handle, signal.SIGKILL)
        _has_ended(handle, _NEVER_S)
    finally:
        os.close(handle)
        _reap_child(note.pid)


def _signal(handle: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def _has_ended(handle: int, patience_s: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(patience_s * 1000))


def _reap_child(pid: int) -> bool | None:
    """Take the exit status of a child that ended, so that no zombie stays; None if it is not our child."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return None


def _start_ticks(pid: int) -> int | None:
    """Return when a process was started, in ticks since boot; None if there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    # The first thread of a killed process is a zombie while others still hold its ports.
    has_ended = not fields or (fields[0] in (b"Z", b"X") and int(fields[17]) <= 1)
    return None if has_ended else int(fields[19])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
