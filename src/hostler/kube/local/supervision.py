"""Brings the parts of one cluster up, in order, and down again; what it started and cannot finish it takes back.

The lock of the cluster is held by the caller. Used by ``cluster``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hostler.errors import UnavailableError
from hostler.kube.local import processes
from hostler.kube.local.binaries import Binary
from hostler.kube.local.flags import command_of
from hostler.kube.local.health import is_healthy
from hostler.kube.local.parts import PROGRAMS, STOP_ORDER
from hostler.kube.local.state import State

__all__ = ["PortTakenError", "Supervision", "end_parts", "log_of", "note_path"]

_START_PATIENCE_S = 180.0  # a second or two on a quiet machine
_END_PATIENCE_S = 10.0
_TICK_S = 0.05
_LINES = 5


class PortTakenError(UnavailableError):
    """Somebody else took a port between our look and our use of it."""

    code = "port_taken"


class Supervision:
    """One round of starting; ``started`` are the parts that it started."""

    def __init__(
        self, folder: Path, state: State, binaries: dict[str, Binary], lock: int, report: Callable[[str], None]
    ) -> None:
        self._folder, self._state, self._binaries, self._lock, self._report = folder, state, binaries, lock, report
        self.started: list[str] = []

    def ensure(self, parts: Sequence[str]) -> None:
        """Start these parts where they do not run as they should, and wait until all of them are well."""
        start = time.monotonic()
        for part in parts:
            self._ensure_running(part)
        for part in parts:
            self._wait(part)
            if part in self.started:
                pid = processes.find(note_path(self._folder, part))
                version = self._binaries[PROGRAMS[part]].version_text
                waited = time.monotonic() - start
                self._report(f"{part} {version} is up (pid {pid.pid if pid else '?'}, {waited:.1f} s)")

    def take_back(self) -> None:
        """End what this round started."""
        end_parts(self._folder, self.started, patience_s=_END_PATIENCE_S)

    def _ensure_running(self, part: str) -> None:
        path = note_path(self._folder, part)
        command = command_of(part, self._folder, self._state, self._binaries)
        note = processes.find(path)
        if note is not None:
            if note.command == tuple(command):
                return
            self._report(f"{part} is started again, with other options")
            processes.end(note, patience_s=_END_PATIENCE_S)
        self.started.append(part)
        processes.start(
            command,
            note=path,
            log=log_of(self._folder, part),
            lock=self._lock,
            environment=_environment(self._folder),
            dies_with_us=self._state.dies_with_us,
        )

    def _wait(self, part: str) -> None:
        deadline = time.monotonic() + _START_PATIENCE_S
        while not is_healthy(part, self._folder, self._state):
            is_running = processes.find(note_path(self._folder, part)) is not None
            if not is_running or time.monotonic() > deadline:
                raise self._failure(part, has_ended=not is_running)
            time.sleep(_TICK_S)

    def _failure(self, part: str, *, has_ended: bool) -> UnavailableError:
        log = log_of(self._folder, part)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        what = "ended while it started" if has_ended else f"is not well after {_START_PATIENCE_S:.0f} s"
        said = "\n  ".join(line[:300] for line in _telling(lines)) or "it said nothing"
        is_taken = any("address already in use" in line for line in lines)
        kind = PortTakenError if is_taken else UnavailableError
        return kind(f"{PROGRAMS[part]} {what}; it said last:\n  {said}", hint=f"the whole log is {log}")


def end_parts(folder: Path, parts: Sequence[str], *, patience_s: float = _END_PATIENCE_S) -> list[str]:
    """End these parts, whoever asks before whoever answers; return those that were running."""
    ended = []
    for part in STOP_ORDER:
        path = note_path(folder, part)
        if part not in parts:
            continue
        note = processes.find(path)
        if note is not None:
            processes.end(note, patience_s=patience_s)
            ended.append(part)
        path.unlink(missing_ok=True)
    return ended


def note_path(folder: Path, part: str) -> Path:
    """Return where it is noted which process a part is."""
    return folder / "run" / f"{part}.json"


def log_of(folder: Path, part: str) -> Path:
    """Return the log of a part."""
    return folder / "logs" / f"{part}.log"


def _environment(folder: Path) -> dict[str, str]:
    """Return what the parts see of the user's environment: nothing that could change them, such as proxies."""
    return {"HOME": str(folder), "KWOK_WORKDIR": str(folder), "PATH": "/usr/bin:/bin", "TMPDIR": str(folder)}


def _telling(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines that say why: errors if there are any, else the last ones; never a dump of goroutines."""
    own = [line for line in lines if line.strip() and not line.startswith(("goroutine ", "\t", "Flags:", "      --"))]
    errors = [line for line in own if line.startswith(("E", "F", "Error")) or '"level":"fatal"' in line]
    return (errors or own)[-_LINES:]
