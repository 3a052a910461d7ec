"""Start the parts of one cluster in order, and stop them again; a failed start is rolled back.

Each part is probed as a kubelet would. The caller holds the lock of the cluster. Used by ``cluster``.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hostler.errors import UnavailableError
from hostler.kube.local import processes
from hostler.kube.local.binaries import Binary
from hostler.kube.local.credentials import token_of
from hostler.kube.local.flags import command_of
from hostler.kube.local.state import PROGRAMS, STOP_ORDER, LocalClusterState

__all__ = ["PortTakenError", "Supervision", "end_parts", "is_healthy", "log_of", "note_path"]

# part: its probe
_PATHS = {
    "etcd": "/health",
    "apiserver": "/readyz",
    "controllers": "/healthz",
    "scheduler": "/readyz",
    "kwok": "/healthz",
}
_PLAIN = ("etcd", "kwok")  # without TLS


def is_healthy(part: str, folder: Path, state: LocalClusterState, *, timeout_s: float = 5.0) -> bool:
    """Return whether a part answers its probe with success."""
    port = getattr(state.ports, part)
    headers = {}
    connection: http.client.HTTPConnection
    if part in _PLAIN:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    else:
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout_s, context=trust)
    if part == "apiserver":
        headers["Authorization"] = f"Bearer {token_of(folder, 'admin')}"
    try:
        connection.request("GET", _PATHS[part], headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


_START_PATIENCE_S = 180.0  # a second or two on a quiet machine
_END_PATIENCE_S = 10.0
_TICK_S = 0.05
_LINES = 5


class PortTakenError(UnavailableError):
    """Another program took a port between our check and our use of it."""

    code = "port_taken"


class Supervision:
    """One start; ``started`` are the parts that it started."""

    def __init__(
        self,
        folder: Path,
        state: LocalClusterState,
        binaries: dict[str, Binary],
        lock: int,
        report: Callable[[str], None],
    ) -> None:
        self._folder, self._state, self._binaries, self._lock, self._report = folder, state, binaries, lock, report
        self.started: list[str] = []

    def ensure(self, parts: Sequence[str]) -> None:
        """Start these parts if they do not run with the right command line, and wait until all are healthy."""
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
        """Stop what this start started."""
        end_parts(self._folder, self.started, patience_s=_END_PATIENCE_S)

    def _ensure_running(self, part: str) -> None:
        path = note_path(self._folder, part)
        command = command_of(part, self._folder, self._state, self._binaries)
        note = processes.find(path)
        if note is not None:
            if note.command == tuple(command):
                return
            self._report(f"{part} is restarted with new options")
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
        what = "exited during its start" if has_ended else f"is not healthy after {_START_PATIENCE_S:.0f} s"
        said = "\n  ".join(line[:300] for line in _relevant_lines(lines)) or "no output"
        is_taken = any("address already in use" in line for line in lines)
        kind = PortTakenError if is_taken else UnavailableError
        return kind(f"{PROGRAMS[part]} {what}; its last output:\n  {said}", hint=f"the whole log is {log}")


def end_parts(folder: Path, parts: Sequence[str], *, patience_s: float = _END_PATIENCE_S) -> list[str]:
    """Stop these parts, clients before servers; return those that were running."""
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
    """Return the file that identifies the process of a part."""
    return folder / "run" / f"{part}.json"


def log_of(folder: Path, part: str) -> Path:
    """Return the log of a part."""
    return folder / "logs" / f"{part}.log"


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of the parts: without variables that could change them, such as proxies."""
    return {"HOME": str(folder), "KWOK_WORKDIR": str(folder), "PATH": "/usr/bin:/bin", "TMPDIR": str(folder)}


def _relevant_lines(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines that show the cause: errors if there are any, else the last ones; no goroutine dumps."""
    own = [line for line in lines if line.strip() and not line.startswith(("goroutine ", "\t", "Flags:", "      --"))]
    errors = [line for line in own if line.startswith(("E", "F", "Error")) or '"level":"fatal"' in line]
    return (errors or own)[-_LINES:]
