"""How a local cluster is, part by part, as plain data. Used by ``hostler kube status``."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from hostler.kube.local import processes
from hostler.kube.local.cluster import LocalCluster
from hostler.kube.local.health import is_healthy
from hostler.kube.local.parts import PROGRAMS
from hostler.kube.local.supervision import note_path

__all__ = ["ClusterReport", "PartReport", "report_on"]


class PartReport(msgspec.Struct, frozen=True):
    """One part. ``state``: healthy; unwell (it runs but does not say that it is well); dead; stopped (by ``down``)."""

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
    """Look at each part of a cluster, and ask it how it is."""
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
