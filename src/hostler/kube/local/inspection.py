"""The state of a local cluster, part by part, as plain data, and the logs of its parts.

``hostler kube status`` and ``hostler kube logs`` print them. Nothing here changes a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from hostler.kube.local import processes
from hostler.kube.local.cluster import LocalCluster
from hostler.kube.local.state import PROGRAMS
from hostler.kube.local.supervision import is_healthy, note_path

__all__ = ["ClusterReport", "LogReader", "PartReport", "report_on"]


class PartReport(msgspec.Struct, frozen=True):
    """One part. ``state``: healthy; unwell (it runs but its probe fails); dead; stopped (by ``down``)."""

    part: str
    state: str
    version: str
    port: int
    pid: int | None = None
    since: str | None = None


class ClusterReport(msgspec.Struct, frozen=True):
    """One cluster."""

    name: str
    is_healthy: bool
    url: str
    kubeconfig: str
    folder: str
    parts: tuple[PartReport, ...]


def report_on(cluster: LocalCluster) -> ClusterReport:
    """Check each part of a cluster with its probe."""
    parts = tuple(_look(cluster, part) for part in cluster.parts)
    return ClusterReport(
        name=cluster.name,
        is_healthy=all(part.state == "healthy" for part in parts),
        url=cluster.url,
        kubeconfig=str(cluster.kubeconfig()),
        folder=str(cluster.folder),
        parts=parts,
    )


def _look(cluster: LocalCluster, part: str) -> PartReport:
    path = note_path(cluster.folder, part)
    version = cluster.state.versions.get(PROGRAMS[part], "-")
    port = getattr(cluster.state.ports, part)
    note = processes.find(path)
    if note is None:
        return PartReport(part, "dead" if path.exists() else "stopped", version, port)
    since = datetime.fromtimestamp(processes.started_at_s(note), UTC).isoformat(timespec="seconds")
    state = "healthy" if is_healthy(part, cluster.folder, cluster.state) else "unwell"
    return PartReport(part, state, version, port, note.pid, since)


class LogReader:
    """Reads one log, also across a restart, which begins a new file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._inode = 0

    def last(self, count: int) -> Iterator[str]:
        """Return the last lines, and remember the end of the file."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            self._inode = self._path.stat().st_ino
            lines = deque(file, maxlen=count)
            self._at = file.tell() - (len(lines[-1]) if lines and not lines[-1].endswith(b"\n") else 0)
        for line in lines:
            yield _text(line)

    def news(self) -> Iterator[str]:
        """Return the lines added since."""
        if not self._path.exists():
            return
        found = self._path.stat()
        if found.st_ino != self._inode or found.st_size < self._at:
            self._inode, self._at = found.st_ino, 0
        if found.st_size > self._at:
            with self._path.open("rb") as file:
                yield from self._read_on(file)

    def _read_on(self, file: BinaryIO) -> Iterator[str]:
        file.seek(self._at)
        for line in file:
            if not line.endswith(b"\n"):  # half a line: the rest comes later
                break
            self._at += len(line)
            yield _text(line)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\n").expandtabs()
